// The editor for the text of a turn.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { http } from "../daemon/http.ts";
import type { SessionPreview, Turn } from "../daemon/wire.ts";
import { editTurn, retry } from "../state/actions.ts";
import { page } from "../state/page.ts";

/** What each change of this turn would do to the agent's session, in the daemon's words. Null until it has answered. */
export function useConsequence(thread: string, turn: string): SessionPreview["after_change"] {
  const [consequence, setConsequence] = useState<SessionPreview["after_change"]>(null);
  useEffect(() => {
    let wanted = true;
    http.session(thread, turn).then(
      (session) => wanted && setConsequence(session.after_change),
      () => undefined,
    );
    return () => {
      wanted = false;
    };
  }, [thread, turn]);
  return consequence;
}

export function TurnEditor({ thread, turn, busy }: { thread: string; turn: Turn; busy: boolean }) {
  const consequence = useConsequence(thread, turn.id);
  const [text, setText] = useState(turn.typed ?? turn.text);
  const [saving, setSaving] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  const close = (): void => page.patch({ editing: null });
  useLayoutEffect(() => {
    const field = area.current;
    field?.focus();
    field?.setSelectionRange(field.value.length, field.value.length);
  }, []);
  const save = async (again: boolean): Promise<void> => {
    if (!text.trim() || saving) return;
    setSaving(true);
    const saved = text === (turn.typed ?? turn.text) || (await editTurn(thread, turn, text));
    if (saved && again) await retry(thread, turn.id);
    setSaving(false);
    if (saved) close();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void save(false);
    }
  };
  return (
    <form class="editor" data-testid="turn-editor" onSubmit={(event) => (event.preventDefault(), void save(false))}>
      <textarea
        ref={area}
        aria-label="The text of this turn"
        rows={Math.min(16, Math.max(2, text.split("\n").length))}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <p class="consequence" data-testid="consequence">
        {consequence?.edit ?? "The old text and the later turns are kept."}
      </p>
      <div class="row">
        <button class="primary" type="submit" disabled={saving || !text.trim()} data-testid="save-turn">
          Save
        </button>
        {turn.role === "user" && (
          <button
            type="button"
            disabled={saving || busy || !text.trim()}
            data-testid="save-and-retry"
            title="Later turns are archived when the new run starts"
            onClick={() => void save(true)}
          >
            Save and ask again
          </button>
        )}
        <button type="button" onClick={close}>
          Cancel
        </button>
      </div>
    </form>
  );
}
