// The dialog that archives threads which were not used for long. What it would do is shown first.

import { useState } from "preact/hooks";
import { transferCalls } from "../daemon/transfer.ts";
import type { Cleanup } from "../daemon/wire.ts";
import { refreshArchives } from "../state/archives.ts";
import { useOperation } from "../state/operations.ts";
import { closeDialog } from "../state/page.ts";
import { plural } from "../text/format.ts";
import { visible } from "../text/visible.ts";
import { focusOnMount } from "../ui/focus.ts";
import { OperationProgress } from "../ui/Progress.tsx";

const KINDS = ["chat", "pair", "review", "job", "hook"];
const DAY_S = 86_400;

export function CleanUp() {
  const [days, setDays] = useState("");
  const [kind, setKind] = useState("");
  const { followed, busy, start, forget } = useOperation<Cleanup>(({ dry_run }) => {
    if (!dry_run) void refreshArchives().catch(() => undefined);
  });
  const clean = (dryRun: boolean): void => {
    const age = Number(days);
    void start(
      transferCalls.clean({
        ...(age > 0 ? { older_than_s: age * DAY_S } : {}),
        ...(age > 0 && kind ? { kind } : {}),
        ...(dryRun ? { dry_run: true } : {}),
      }),
    );
  };
  const result = followed?.operation.result ?? null;
  const isChecked = result !== null && result.dry_run;
  const change = (update: () => void): void => {
    update();
    forget(); // what was shown is about other threads
  };
  return (
    <form data-testid="clean-form" onSubmit={(event) => (event.preventDefault(), clean(!isChecked))}>
      <div class="pair">
        <label class="field">
          Not used for (days)
          <input
            type="number"
            min="0"
            step="any"
            autoFocus
            ref={focusOnMount}
            placeholder="as set"
            data-testid="clean-days"
            value={days}
            onInput={(event) => change(() => setDays(event.currentTarget.value))}
          />
        </label>
        <label class="field">
          Kind of thread
          <select value={kind} disabled={!(Number(days) > 0)} onChange={(event) => change(() => setKind(event.currentTarget.value))}>
            <option value="">all</option>
            {KINDS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      </div>
      <p class="hint">
        Without a number, the settings <code>retention.threads</code> and <code>retention.archives</code> apply. Threads in use
        are never archived.
      </p>
      {followed && <OperationProgress followed={followed}>{result && <Found result={result} />}</OperationProgress>}
      <div class="row end">
        <button type="button" onClick={closeDialog}>
          Close
        </button>
        {!(result && !result.dry_run) && (
          <button
            class={isChecked ? "danger" : "primary"}
            type="submit"
            data-testid={isChecked ? "confirm-clean" : "check-clean"}
            disabled={busy || (isChecked && result.archived.length + result.removed.length === 0)}
          >
            {isChecked ? "Clean up" : "Show what would be done"}
          </button>
        )}
      </div>
    </form>
  );
}

const MAX_LISTED = 100;

function Found({ result }: { result: Cleanup }) {
  const { dry_run, archived, removed, kept } = result;
  return (
    <div class="ending" data-testid="cleaned" role="status">
      <p>
        <strong>
          {plural(archived.length, "thread")} {dry_run ? "would be" : archived.length === 1 ? "was" : "were"} archived
          {removed.length > 0 && `, and ${plural(removed.length, "old archive")} deleted`}.
        </strong>
      </p>
      <ul class="results">
        {archived.slice(0, MAX_LISTED).map((each) => (
          <li key={each.thread}>
            {visible(each.thread)} <span class="muted">{plural(each.turns, "turn")}</span>
          </li>
        ))}
        {archived.length > MAX_LISTED && <li>and {plural(archived.length - MAX_LISTED, "other")}</li>}
        {removed.slice(0, MAX_LISTED).map((file) => (
          <li key={file}>
            {visible(file)} <span class="muted">deleted for good</span>
          </li>
        ))}
        {kept.slice(0, MAX_LISTED).map((each) => (
          <li key={each.thread}>
            {visible(each.thread)} <span class="muted">stays: {visible(each.why)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
