// What the user said. It can be edited, asked again, or taken back; before any of it one line says what that does to the
// agent's session.

import type { ComponentChildren } from "preact";
import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { editTurn, retry, truncate } from "./actions.ts";
import { page } from "./sync.ts";
import { Badge } from "./Badge.tsx";
import { Ending } from "./Ending.tsx";
import { http } from "./http.ts";
import { Again, Back, Pencil } from "./icons.tsx";
import { Markdown } from "./Markdown.tsx";
import { useNear } from "./near.ts";
import { Parts, useParts } from "./Steps.tsx";
import { useStore } from "./store.ts";
import type { RunNote, SessionSays, Turn } from "./wire.ts";
import { moment, plural } from "./words.ts";

interface Shown {
  thread: string;
  turn: Turn;
  ended: RunNote | null; // the run that gave no answer to it, unless that is shown elsewhere
  after: number; // turns that follow
  busy: boolean; // a run is going on
  fixed: boolean; // to be read, not to be changed
}

/** Drawn again only when it is another one: a long thread has thousands, and its end changes many times a second. */
export const UserTurn = memo(({ thread, turn, ended, after, busy, fixed }: Shown) => {
  const editing = useStore(page, (now) => now.editing === turn.id);
  const [change, setChange] = useState<"retry" | "truncate" | null>(null);
  return (
    <article class="turn user" data-testid="turn-user" data-turn={turn.id} aria-label="You">
      <div class="said">{editing ? <TurnEditor thread={thread} turn={turn} busy={busy} /> : <Markdown text={turn.text} typed />}</div>
      {!editing && (
        <div class="actions">
          <time title={moment(turn.created_at)} dateTime={turn.created_at}>
            {new Date(turn.created_at).toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false })}
          </time>
          {turn.revision > 0 && <span title={plural(turn.revision, "edit")}>edited</span>}
          {!fixed && <Changing turn={turn} busy={busy} change={setChange} />}
        </div>
      )}
      {ended && (
        <Unanswered run={ended}>
          <Ending
            thread={thread}
            run={ended}
            kept={false}
            prompt={turn.id}
            text={turn.text}
            place={fixed ? "fixed" : after > 0 || busy ? "amid" : "last"}
            again={() => setChange("retry")}
          />
        </Unanswered>
      )}
      {change && <Change thread={thread} turn={turn} after={after} what={change} close={() => setChange(null)} />}
    </article>
  );
});

/** What the run did and what it cost, around how it ended. */
function Unanswered({ run, children }: { run: RunNote; children: ComponentChildren }) {
  const ref = useRef<HTMLDivElement>(null);
  const near = useNear(ref);
  const parts = useParts(near && run.started_at ? run.id : null);
  return (
    <div class="unanswered" ref={ref}>
      {parts && <Parts parts={parts} live={false} />}
      {children}
      {run.session_resumed !== null && <Badge run={run} agent={null} model={null} />}
    </div>
  );
}

interface Choosing {
  turn: Turn;
  busy: boolean;
  change: (what: "retry" | "truncate") => void;
}

const Changing = ({ turn, busy, change }: Choosing) => (
  <>
    <button class="quiet" type="button" data-testid="edit-turn" onClick={() => page.patch({ editing: turn.id })}>
      <Pencil size={13} /> <span class="name">Edit</span>
    </button>
    <button class="quiet" type="button" data-testid="retry-turn" onClick={() => change("retry")}>
      <Again size={13} /> <span class="name">Ask again</span>
    </button>
    <button
      class="quiet"
      type="button"
      data-testid="truncate-turn"
      disabled={busy}
      title={busy ? "Not while a run is going on" : "Takes back this turn and all after it"}
      onClick={() => change("truncate")}
    >
      <Back size={13} /> <span class="name">Take back</span>
    </button>
  </>
);

/** What a change of this turn would do to the session, in the daemon's words. */
function useConsequence(thread: string, turn: string): SessionSays["after_change"] {
  const [says, hear] = useState<SessionSays["after_change"]>(null);
  useEffect(() => {
    let wanted = true;
    http.session(thread, turn).then(
      (session) => wanted && hear(session.after_change),
      () => undefined,
    );
    return () => {
      wanted = false;
    };
  }, [thread, turn]);
  return says;
}

interface Consequences {
  thread: string;
  turn: Turn;
  after: number;
  what: "retry" | "truncate";
  close: () => void;
}

function Change({ thread, turn, after, what, close }: Consequences) {
  const says = useConsequence(thread, turn.id);
  const archived = what === "retry" ? after : after + 1;
  const own = archived > 0 ? `Archives ${plural(archived, "turn")}.` : "";
  const also = what === "truncate" ? "Its text goes back into the composer." : "";
  return (
    <Confirm
      words={`${says?.[what] ?? own} ${also}`}
      verb={what === "retry" ? "Ask again" : "Take back"}
      act={() => (what === "retry" ? retry(thread, turn.id) : truncate(thread, turn))}
      close={close}
    />
  );
}

interface Confirming {
  words: string;
  verb: string;
  act: () => Promise<unknown>;
  close: () => void;
}

/** One line that says what is about to happen, and the button that does it, once. */
export function Confirm({ words, verb, act, close }: Confirming) {
  const button = useRef<HTMLButtonElement>(null);
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => button.current?.focus(), []);
  const go = async (): Promise<void> => {
    setBusy(true);
    await act();
    close();
  };
  return (
    <div class="change" role="group" aria-label="Confirm" onKeyDown={(event) => event.key === "Escape" && (event.stopPropagation(), close())}>
      <p data-testid="consequence">{words}</p>
      <div class="row">
        <button class="primary" type="button" ref={button} disabled={busy} data-testid="confirm-change" onClick={() => void go()}>
          {verb}
        </button>
        <button type="button" onClick={close}>
          Leave it
        </button>
      </div>
    </div>
  );
}

export function TurnEditor({ thread, turn, busy }: { thread: string; turn: Turn; busy: boolean }) {
  const says = useConsequence(thread, turn.id);
  const [text, setText] = useState(turn.text);
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
    const saved = text === turn.text || (await editTurn(thread, turn, text));
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
        {says?.edit ?? "The old text is kept, later turns stay."}
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
