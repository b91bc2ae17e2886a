// Prompts that wait, while a run goes on or because it was stopped: edited, removed, or sent now. They stand above the
// composer, where the growing answer does not push them away under the pointer.

import { useState } from "preact/hooks";
import { changePrompt, sendNow, takeBack } from "./actions.ts";
import { Close, Pencil, Send } from "./icons.tsx";
import { focused } from "./near.ts";
import { visible } from "./visible.ts";
import { isResting, type Run } from "./wire.ts";
import { moment } from "./words.ts";

export function Queue({ runs, going }: { runs: readonly Run[]; going: boolean }) {
  if (runs.length === 0) return null;
  const next = runs.find((run) => !isResting(run)) ?? null;
  return (
    <section class="queue" aria-label="Queued prompts">
      {runs.some((run) => run.held) && (
        <p class="hint" role="status">
          The run was stopped. What was queued behind it waits until you send it.
        </p>
      )}
      {runs.map((run) => (
        <Queued key={run.id} run={run} going={going} sendable={isResting(run) || (going && run === next)} />
      ))}
    </section>
  );
}

function Queued({ run, going, sendable }: { run: Run; going: boolean; sendable: boolean }) {
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
      <span class="tag">{run.held ? "held" : run.not_before ? `waits until ${moment(run.not_before)}` : "queued"}</span>
      {text === null ? (
        <span class="queued-text">{visible(run.prompt)}</span>
      ) : (
        <textarea
          ref={focused}
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
                title={going ? "Stops the current run; what it said is kept" : "Starts this prompt"}
                onClick={() => void sendNow(run)}
              >
                <Send size={13} /> Send now
              </button>
            )}
            <button class="quiet" type="button" data-testid="queued-edit" onClick={() => setText(run.prompt)}>
              <Pencil size={13} /> Edit
            </button>
            <button class="quiet" type="button" data-testid="queued-remove" onClick={() => void takeBack(run)}>
              <Close size={13} /> Remove
            </button>
          </>
        )}
      </div>
    </div>
  );
}
