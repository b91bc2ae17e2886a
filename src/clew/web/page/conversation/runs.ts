// Sorts the runs of a thread by where they are shown.

import { isActive, isOnHold, isRunning, type Run } from "../daemon/wire.ts";
import type { ConversationState } from "../state/reducer.ts";

interface SortedRuns {
  current: Run | null; // its answer grows at the end of the conversation
  next: Run | null; // is about to start
  queued: readonly Run[]; // shown above the composer
  unanswered: Run | null; // ended without an answer
}

export function sortRuns({ runs, turns }: Pick<ConversationState, "runs" | "turns">): SortedRuns {
  const answered = new Set(turns.flatMap((turn) => (turn.role === "assistant" && turn.run_id ? [turn.run_id] : [])));
  const left = runs.filter((run) => !answered.has(run.id) && !wasRemoved(run));
  const current = left.find((run) => isRunning(run.status)) ?? null;
  const queued = left.filter((run) => run.status === "queued");
  const next = current ? null : (queued.find((run) => !isOnHold(run)) ?? null);
  const unanswered = current || next ? null : (left.find((run) => !isActive(run.status)) ?? null);
  return { current, next, queued: queued.filter((run) => run !== next), unanswered };
}

/** A queued prompt that was removed: its run is still to be cancelled, or was cancelled before it started. */
const wasRemoved = (run: Run): boolean =>
  (run.status === "queued" && run.cancel_requested) || (run.status === "cancelled" && !run.started_at);
