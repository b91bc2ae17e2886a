// The progress of an operation: what it does, how far it is, a button to cancel it, and how it ended.

import type { ComponentChildren } from "preact";
import type { Operation } from "../daemon/operations.ts";
import type { FoundSecret } from "../daemon/wire.ts";
import { cancelOperation, isOver, nameOf, type Followed } from "../state/operations.ts";
import { plural } from "../text/format.ts";
import { visible, visibleLine } from "../text/visible.ts";
import { Stop, Warning } from "./icons.tsx";

/** `children`: what is shown when it is done. */
export function OperationProgress({ followed, children }: { followed: Followed; children?: ComponentChildren }) {
  const { operation, warnings } = followed;
  return (
    <div class="operation" data-testid="operation" data-state={operation.status}>
      {!isOver(followed) && <Running followed={followed} />}
      {warnings.length > 0 && (
        <ul class="notes" aria-label="Warnings">
          {warnings.map((warning, index) => (
            <li key={index} class="note warning">
              {visible(warning)}
            </li>
          ))}
        </ul>
      )}
      <OperationError operation={operation} />
      {operation.status === "cancelled" && (
        <p class="note plain" role="status">
          {nameOf(operation.kind)} was cancelled. Nothing is half done.
        </p>
      )}
      {isOver(followed) && children}
    </div>
  );
}

function Running({ followed }: { followed: Followed }) {
  const { operation, done, total, message, isCancelling } = followed;
  const isMeasured = done !== null && total !== null && total > 0;
  return (
    <>
      <p class="operation-line" role="status">
        <span class="pulse" aria-hidden="true" />
        <span class="grow" data-testid="operation-message">
          {isCancelling ? "Stopping…" : visibleLine(message) || "Starting…"}
        </span>
        {isMeasured && (
          <span>
            {done} of {total}
          </span>
        )}
        <button
          type="button"
          data-testid="operation-cancel"
          disabled={isCancelling}
          onClick={() => void cancelOperation(operation.id)}
        >
          <Stop size={13} /> Stop
        </button>
      </p>
      <progress aria-label={`Progress of ${operation.kind}`} value={isMeasured ? done : undefined} max={isMeasured ? total : 1} />
    </>
  );
}

function OperationError({ operation: { error } }: { operation: Operation }) {
  if (!error) return null;
  return (
    <div class="ending problem" role="alert" data-testid="operation-error">
      <p>
        <Warning /> <strong>{visible(error.message)}</strong>
      </p>
      {error.hint && <p>{visible(error.hint)}</p>}
      <Secrets secrets={error.secrets} />
    </div>
  );
}

const MAX_LISTED = 20;

/** Which secrets were found, and where; never a secret itself. */
export function Secrets({ secrets }: { secrets: readonly FoundSecret[] }) {
  if (secrets.length === 0) return null;
  return (
    <ul class="secrets" data-testid="secrets">
      {secrets.slice(0, MAX_LISTED).map((secret, index) => (
        <li key={index}>
          {visible(secret.kind)} <span class="muted">in {visible(secret.where)}</span>
        </li>
      ))}
      {secrets.length > MAX_LISTED && <li>and {plural(secrets.length - MAX_LISTED, "other")}</li>}
    </ul>
  );
}
