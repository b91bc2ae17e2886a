// Queued prompts, which wait for the current run or because it was stopped. They can be edited, removed or sent now. They
// are shown above the composer, where the growing answer does not move them away from the pointer.

import { useState } from "preact/hooks";
import { isOnHold, type Run } from "../daemon/wire.ts";
import { changePrompt, removeQueued, sendNow } from "../state/actions.ts";
import { dateTime } from "../text/format.ts";
import { visible } from "../text/visible.ts";
import { focusOnMount } from "../ui/focus.ts";
import { Close, Pencil, Send } from "../ui/icons.tsx";

export function Queue({ runs, busy }: { runs: readonly Run[]; busy: boolean }) {
  if (runs.length === 0) return null;
  const next = runs.find((run) => !isOnHold(run)) ?? null;
  return (
    <section class="queue" aria-label="Queued prompts">
      {runs.some((run) => run.held) && (
        <p class="hint" role="status">
          The run was stopped. The prompts that were queued wait until you send them.
        </p>
      )}
      {runs.map((run) => (
        <QueuedPrompt key={run.id} run={run} busy={busy} sendable={isOnHold(run) || (busy && run === next)} />
      ))}
    </section>
  );
}

function QueuedPrompt({ run, busy, sendable }: { run: Run; busy: boolean; sendable: boolean }) {
  const [text, setText] = useState<string | null>(null);
  const save = async (): Promise<void> => {
    if (text?.trim() && (await changePrompt(run, text))) setText(null);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Escape") {
      event.stopPropagation();
      setText(null);
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      void save();
    }
  };
  return (
    <div class="queued" data-testid="queued-item" data-state={run.held ? "held" : "queued"}>
      <span class="tag">{run.held ? "held" : run.not_before ? `waits until ${dateTime(run.not_before)}` : "queued"}</span>
      {text === null ? (
        <span class="queued-text">{visible(run.typed ?? run.prompt)}</span>
      ) : (
        <textarea
          ref={focusOnMount}
          rows={2}
          aria-label="The queued prompt"
          data-testid="queued-editor"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
      )}
      <div class="row">
        {text !== null ? (
          <>
            <button class="quiet" type="button" data-testid="queued-save" onClick={() => void save()}>
              Save
            </button>
            <button class="quiet" type="button" onClick={() => setText(null)}>
              Cancel
            </button>
          </>
        ) : (
          <>
            {sendable && (
              <button
                class="quiet"
                type="button"
                data-testid="queued-now"
                title={busy ? "Stops the current run; its answer so far is kept" : "Starts this prompt"}
                onClick={() => void sendNow(run)}
              >
                <Send size={13} /> Send now
              </button>
            )}
            <button class="quiet" type="button" data-testid="queued-edit" onClick={() => setText(run.typed ?? run.prompt)}>
              <Pencil size={13} /> Edit
            </button>
            <button class="quiet" type="button" data-testid="queued-remove" onClick={() => void removeQueued(run)}>
              <Close size={13} /> Remove
            </button>
          </>
        )}
      </div>
    </div>
  );
}
