// Prompts that wait while a run goes on: edited, removed, or sent now. They stand above the composer, where the growing
// answer does not push them away under the pointer.

import { useState } from "preact/hooks";
import { changePrompt, stop, takeBack } from "./actions.ts";
import { Close, Pencil, Send } from "./icons.tsx";
import { focused } from "./near.ts";
import { visible } from "./visible.ts";
import type { Run } from "./wire.ts";

export function Queue({ runs, current }: { runs: readonly Run[]; current: Run | null }) {
  if (runs.length === 0) return null;
  return (
    <section class="queue" aria-label="Queued prompts">
      {runs.map((run, index) => (
        <Queued key={run.id} run={run} current={index === 0 ? current : null} />
      ))}
    </section>
  );
}

function Queued({ run, current }: { run: Run; current: Run | null }) {
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
    <div class="queued" data-testid="queued-item">
      <span class="tag">queued</span>
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
            {current && (
              <button
                class="quiet"
                type="button"
                data-testid="queued-now"
                title="Stops the current run; what it said is kept"
                onClick={() => void stop(current)}
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
