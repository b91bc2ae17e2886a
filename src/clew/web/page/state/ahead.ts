// Has the agent of a thread started before its prompt is there: when the thread is shown, and when somebody types. Nobody
// asked for it, so nothing of it is shown, also if it fails.

import { http } from "../daemon/http.ts";
import type { SessionPreview } from "../daemon/wire.ts";
import { inBackground } from "./page.ts";

const PAUSE_MS = 30_000; // the shortest time between two requests for a thread

const requested = new Map<string, number>(); // when, by thread

/** An agent can be started ahead only if the next turn resumes a session as it is, and no run is in progress. */
export const canStartAhead = (session: SessionPreview): boolean =>
  session.resumes && !session.copies && session.waits_for === null;

/** Whether it is time for a request; it is noted as made. */
export function isDue(thread: string, nowMs: number): boolean {
  const last = requested.get(thread);
  if (last !== undefined && nowMs - last < PAUSE_MS) return false;
  requested.set(thread, nowMs);
  return true;
}

export function startAhead(session: (SessionPreview & { thread: string }) | null): void {
  if (session && canStartAhead(session) && isDue(session.thread, performance.now())) {
    void inBackground(http.startAhead(session.thread));
  }
}
