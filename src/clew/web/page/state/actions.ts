// What a person does on the page. Each asks the daemon, puts its answer into the store at once, and leaves the rest to
// the `changed` that every tab hears.

import { attempt, daemon, go, hear, hearDone, notify, page, refreshSession, refreshView } from "./sync.ts";
import { http } from "./http.ts";
import { refreshHooks } from "./hooks.ts";
import { heardOf } from "./jobs.ts";
import { draft, forget } from "./keep.ts";
import { refreshReview } from "./reviews.ts";
import { isGoing, type HookSession, type Job, type Question, type Round, type Run, type Thread, type Turn } from "./wire.ts";

export interface Asking {
  fresh?: boolean;
  agent?: string;
  model?: string;
}

export async function ask(thread: string, prompt: string, how: Asking = {}): Promise<boolean> {
  const body: Record<string, unknown> = { prompt };
  if (how.fresh) body.force_fresh_session = true;
  if (how.agent) body.agent = how.agent;
  if (how.model) body.model = how.model;
  const run = await attempt(http.ask(thread, body));
  if (run) hearDone({ type: "run_changed", run });
  return run !== null;
}

export const goingRun = (): Run | null =>
  daemon.now.conversation?.runs.find((run) => isGoing(run.status) || (run.status === "queued" && !run.held)) ?? null;

/** Stops what is going on; what was said so far stays. */
export async function stop(run: Run): Promise<void> {
  hearDone({ type: "run_changed", run: { ...run, cancel_requested: true } });
  const stopped = await attempt(http.cancel(run.id));
  if (stopped) hearDone({ type: "run_changed", run: stopped });
  else void refreshView();
}

/** Starts a prompt that waits; what is going on is stopped, and what it said stays. */
export async function sendNow(run: Run): Promise<void> {
  const sent = await attempt(http.send(run.id));
  if (sent) hearDone({ type: "run_changed", run: sent });
  else void refreshView();
}

/** A run that met the account's usage limit continues in its session when the limit has reset. */
export async function continueAfterLimit(run: string): Promise<void> {
  const waiting = await attempt(http.continueAfterLimit(run));
  if (waiting) hearDone({ type: "run_changed", run: waiting });
}

export async function takeBack(run: Run): Promise<void> {
  await attempt(http.takeBack(run.id).then(() => hearDone({ type: "run_removed", run: run.id })));
}

export async function changePrompt(run: Run, prompt: string): Promise<boolean> {
  const changed = await attempt(http.changePrompt(run.id, prompt));
  if (changed) hearDone({ type: "run_changed", run: changed });
  return changed !== null;
}

export async function editTurn(thread: string, turn: Turn, text: string): Promise<boolean> {
  const changed = await attempt(http.editTurn(thread, turn.id, text));
  if (!changed) return false;
  hearDone({ type: "turn_changed", turn: { ...turn, text: changed.text, revision: changed.revision } });
  refreshSession();
  return true;
}

export async function retry(thread: string, turn: string): Promise<boolean> {
  const run = await attempt(http.retry(thread, turn));
  if (run) hearDone({ type: "run_changed", run });
  return run !== null;
}

/** A prompt that got no answer, once more: taken back, then asked as if for the first time. */
export async function askAgain(thread: string, turnId: string): Promise<void> {
  const turn = daemon.now.conversation?.turns.find((each) => each.id === turnId);
  if (!turn || !(await attempt(http.truncate(thread, turn.id)))) return;
  hearDone({ type: "turns_removed", thread, from: turn.position });
  if (!(await ask(thread, turn.text))) refillComposer(thread, turn.text);
}

/** Takes back a user's turn and all after it; its words are in the composer again. */
export async function truncate(thread: string, turn: Turn): Promise<boolean> {
  const done = await attempt(http.truncate(thread, turn.id));
  if (!done) return false;
  hearDone({ type: "turns_removed", thread, from: turn.position });
  const kept = draft.of(thread);
  const text = kept.trim() ? `${turn.text}\n\n${kept}` : turn.text;
  draft.keep(thread, text);
  refill(thread, text);
  notify(`${done.archived === 1 ? "1 turn" : `${done.archived} turns`} taken back. They are archived, not lost.`);
  void refreshView();
  return true;
}

/** A new thread with all up to that turn; this one stays as it is. */
export async function fork(thread: string, turn: Turn): Promise<void> {
  const made = await attempt(http.fork(thread, turn.id));
  if (!made) return;
  hear({ type: "changed", version: 0, threads: [made], deleted: [] });
  go({ at: "thread", thread: made.id });
  notify(`This is “${made.name}”. The old thread stays as it is.`);
}

type Refilled = (thread: string, text: string) => void;
let refill: Refilled = () => undefined;

/** The composer says here how it takes words from elsewhere. */
export const onRefill = (take: Refilled): void => {
  refill = take;
};

export const refillComposer: Refilled = (thread, text) => {
  draft.keep(thread, text);
  refill(thread, text);
};

export async function answer(question: Question, said: Record<string, unknown>): Promise<boolean> {
  const done = await attempt(http.answer(question.run_id, { question_id: question.id, ...said }));
  if (!done) {
    void refreshView(); // another tab may have answered it
    return false;
  }
  hearDone({ type: "question_changed", question: { ...question, state: "answered" } });
  return true;
}

export async function makeThread(body: Record<string, unknown>): Promise<Thread | null> {
  const made = await attempt(http.makeThread(body), body.cwd);
  if (made) {
    hear({ type: "changed", version: 0, threads: [made], deleted: [] });
    go({ at: "thread", thread: made.id });
  }
  return made;
}

export async function changeThread(id: string, body: Record<string, unknown>): Promise<Thread | null> {
  const changed = await attempt(http.changeThread(id, body), body.cwd);
  if (changed) {
    hear({ type: "changed", version: 0, threads: [changed], deleted: [] });
    refreshSession();
  }
  return changed;
}

export async function deleteThread(id: string): Promise<boolean> {
  const done = await attempt(http.deleteThread(id));
  if (!done) return false;
  const { route } = page.now;
  if ("thread" in route && route.thread === id) go({ at: "home" });
  hear({ type: "changed", version: 0, threads: [], deleted: [id] });
  forget(id);
  notify(`“${done.name}” is deleted.`, `Its archive: ${done.archive}`);
  return true;
}

export async function submitJob(body: Record<string, unknown>): Promise<Job | null> {
  const made = await attempt(http.submitJob(body), body.cwd);
  if (made) {
    heardOf(made);
    go({ at: "job", job: made.id });
  }
  return made;
}

export interface Retry {
  resume?: boolean;
  restore?: boolean;
  keep?: boolean;
}

/** Queues a job again that stopped: in its session or afresh, with its own files or with those that are there. */
export async function retryJob(job: Job, { resume, ...files }: Retry): Promise<void> {
  const queued = await attempt(http.retryJob(job.id, resume, files));
  if (queued) heardOf(queued);
}

export async function cancelJob(job: Job): Promise<void> {
  const told = await attempt(http.cancelJob(job.id));
  if (told) heardOf(told);
}

export async function startReview(body: Record<string, unknown>): Promise<Round | null> {
  const begun = await attempt(http.startReview(body), body.cwd);
  if (begun) go({ at: "review", review: begun.id, round: null });
  return begun;
}

/** The next round of a review; the page then shows it. */
export async function followReview(id: string, body: Record<string, unknown>): Promise<boolean> {
  const begun = await attempt(http.followReview(id, body));
  if (!begun) return false;
  void refreshReview().catch(() => undefined);
  go({ at: "review", review: id, round: null });
  return true;
}

export const stopRound = async (run: string): Promise<boolean> => (await attempt(http.cancel(run))) !== null;

/** As a file: a link could not bring the page's key along. */
export async function exportReview(id: string): Promise<void> {
  const text = await attempt(http.exportReview(id));
  if (text === null) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  link.download = `review-${id}.md`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** The next event of that issue starts afresh. */
export async function resetHook({ agent, repo, number }: HookSession): Promise<boolean> {
  const done = await attempt(http.resetHook({ agent, repo, number }));
  if (done) await attempt(refreshHooks());
  return done !== null;
}
