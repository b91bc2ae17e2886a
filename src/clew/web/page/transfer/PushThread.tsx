// The dialog that pushes a thread to a remote.

import { useState } from "preact/hooks";
import { transferCalls } from "../daemon/transfer.ts";
import type { Push, Thread } from "../daemon/wire.ts";
import { useOperation } from "../state/operations.ts";
import { closeDialog } from "../state/page.ts";
import { OperationProgress } from "../ui/Progress.tsx";
import { remoteBody, RemoteFields, useRemote } from "./RemoteFields.tsx";
import { Results } from "./Results.tsx";

export function PushThread({ thread }: { thread: Thread }) {
  const [remote, setRemote] = useRemote();
  const [withSecrets, setWithSecrets] = useState(false);
  const { followed, busy, start } = useOperation<Push>();
  const push = (dryRun: boolean): void => {
    const body = { ...remoteBody(remote), threads: [thread.id] };
    void start(transferCalls.push({ ...body, ...(withSecrets ? { with_secrets: true } : {}), ...(dryRun ? { dry_run: true } : {}) }));
  };
  const result = followed?.operation.result;
  return (
    <form data-testid="push-form" onSubmit={(event) => (event.preventDefault(), push(false))}>
      <RemoteFields remote={remote} change={setRemote} />
      <label class="option">
        <input type="checkbox" checked={withSecrets} onChange={(event) => setWithSecrets(event.currentTarget.checked)} />
        <span>
          With secrets
          <small>A thread that contains a secret is pushed anyway. Without this it is refused.</small>
        </span>
      </label>
      {followed && (
        <OperationProgress followed={followed}>
          {result && <Results threads={result.threads} dryRun={result.dry_run} />}
        </OperationProgress>
      )}
      <div class="row end">
        <button type="button" onClick={closeDialog}>
          Close
        </button>
        <button type="button" disabled={busy} data-testid="check-push" onClick={() => push(true)}>
          Check only
        </button>
        <button class="primary" type="submit" disabled={busy} data-testid="start-push">
          Push
        </button>
      </div>
    </form>
  );
}
