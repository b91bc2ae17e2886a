// Where each of a thread's runs stands on the screen.

import type { Conversation } from "./state.ts";
import { isActive, isGoing, isResting, type Run } from "./wire.ts";

export interface Arrangement {
  going: Run | null; // grows at the end of the conversation
  pending: Run | null; // is about to
  queued: readonly Run[]; // wait below it
  unanswered: Run | null; // ended without an answer: shown with the way out
}

/** Which run is going on, which starts next, which wait, and which ended without an answer. */
export function arranged({ runs, turns }: Pick<Conversation, "runs" | "turns">): Arrangement {
  const answered = new Set(turns.flatMap((turn) => (turn.role === "assistant" && turn.run_id ? [turn.run_id] : [])));
  const left = runs.filter((run) => !answered.has(run.id) && !takenBack(run));
  const going = left.find((run) => isGoing(run.status)) ?? null;
  const waiting = left.filter((run) => run.status === "queued");
  const pending = going ? null : (waiting.find((run) => !isResting(run)) ?? null);
  const unanswered = going || pending ? null : (left.find((run) => !isActive(run.status)) ?? null);
  return { going, pending, queued: waiting.filter((run) => run !== pending), unanswered };
}

/** A queued prompt that was removed: until its run has heard of it, and when it is over without ever having begun. */
const takenBack = (run: Run): boolean =>
  (run.status === "queued" && run.cancel_requested) || (run.status === "cancelled" && !run.started_at);
