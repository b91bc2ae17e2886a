// The actions of a person on the page. Each sends a request to the daemon, puts the response into the store at once, and
// leaves the rest to the `changed` message that every tab receives.

import { http } from "../daemon/http.ts";
import {
  isRunning,
  type HookSession,
  type Job,
  type Question,
  type Round,
  type Run,
  type Thread,
  type Turn,
} from "../daemon/wire.ts";
import { plural } from "../text/format.ts";
import { refreshHooks } from "./hooks.ts";
import { putJob } from "./jobs.ts";
import { attempt, notify, page } from "./page.ts";
import { refreshReview } from "./reviews.ts";
import { go } from "./routes.ts";
import { saveFile } from "./save.ts";
import { draft, forgetThread } from "./storage.ts";
import { daemon, dispatch, dispatchOwn, refreshSession, refreshView } from "./sync.ts";

interface AskOptions {
  typed?: boolean; // the person typed it: @path and /command stand for files
  known?: string; // a text in the prompt that the person did not type
  fresh?: boolean;
  agent?: string;
  model?: string;
}

/** Sends a prompt. `/clear` and `/compact` act on the thread instead, and ask the agent nothing. */
export async function ask(thread: string, prompt: string, how: AskOptions = {}): Promise<boolean> {
  const body: Record<string, unknown> = { prompt };
  if (how.typed) {
    if (/^\/clear\s*$/.test(prompt)) return clear(thread);
    const focus = /^\/compact(?:\s+([^]*))?$/.exec(prompt);
    if (focus) return compact(thread, focus[1]?.trim() ?? "");
    body.expand = true;
    if (how.known) body.known = how.known;
  }
  if (how.fresh) body.force_fresh_session = true;
  if (how.agent) body.agent = how.agent;
  if (how.model) body.model = how.model;
  const run = await attempt(http.ask(thread, body));
  if (run) dispatchOwn({ type: "run_changed", run });
  return run !== null;
}

/** Archives all turns: the next prompt begins with an empty history. */
async function clear(thread: string): Promise<boolean> {
  const done = await attempt(http.clear(thread));
  if (!done) return false;
  dispatchOwn({ type: "turns_removed", thread, from: 0 });
  notify(`${plural(done.archived, "turn")} archived.`);
  void refreshView();
  return true;
}

/** Lets the agent replace what its session holds by a summary. The turns stay. */
async function compact(thread: string, focus: string): Promise<boolean> {
  const done = await attempt(http.compact(thread, focus));
  if (!done) return false;
  const tooLittle = "The session is as it was: the agent found too little in it.";
  if (done.session_id === null) notify("The next turn would resume no session: there is nothing to compact.");
  else notify(done.is_compacted ? "The session is compacted. The turns stay." : tooLittle);
  return true;
}

export const currentRun = (): Run | null =>
  daemon.now.conversation?.runs.find((run) => isRunning(run.status) || (run.status === "queued" && !run.held)) ?? null;

/** Stops a run; its answer so far is kept. */
export async function stop(run: Run): Promise<void> {
  dispatchOwn({ type: "run_changed", run: { ...run, cancel_requested: true } });
  const stopped = await attempt(http.cancel(run.id));
  if (stopped) dispatchOwn({ type: "run_changed", run: stopped });
  else void refreshView();
}

/** Starts a queued prompt. The current run is stopped, and its answer so far is kept. */
export async function sendNow(run: Run): Promise<void> {
  const sent = await attempt(http.send(run.id));
  if (sent) dispatchOwn({ type: "run_changed", run: sent });
  else void refreshView();
}

/** Continues a run that the account's usage limit ended, in its session, when the limit has reset. */
export async function continueAfterLimit(run: string): Promise<void> {
  const waiting = await attempt(http.continueAfterLimit(run));
  if (waiting) dispatchOwn({ type: "run_changed", run: waiting });
}

export async function removeQueued(run: Run): Promise<void> {
  await attempt(http.removeRun(run.id).then(() => dispatchOwn({ type: "run_removed", run: run.id })));
}

export async function changePrompt(run: Run, prompt: string): Promise<boolean> {
  const changed = await attempt(http.changePrompt(run.id, prompt));
  if (changed) dispatchOwn({ type: "run_changed", run: changed });
  return changed !== null;
}

export async function editTurn(thread: string, turn: Turn, text: string): Promise<boolean> {
  const changed = await attempt(http.editTurn(thread, turn.id, text));
  if (!changed) return false;
  dispatchOwn({ type: "turn_changed", turn: { ...turn, text: changed.text, typed: changed.typed, revision: changed.revision } });
  refreshSession();
  return true;
}

/** Asks a turn again: from before it in its session, or in a fresh session. */
export async function retry(thread: string, turn: string, fresh = false): Promise<boolean> {
  const run = await attempt(http.retry(thread, turn, fresh));
  if (run) dispatchOwn({ type: "run_changed", run });
  return run !== null;
}

/** Archives a prompt that got no answer and sends it again as a new one. */
export async function askAgain(thread: string, turnId: string): Promise<void> {
  const turn = daemon.now.conversation?.turns.find((each) => each.id === turnId);
  if (!turn || !(await attempt(http.truncate(thread, turn.id)))) return;
  dispatchOwn({ type: "turns_removed", thread, from: turn.position });
  const asked = turn.typed === null ? await ask(thread, turn.text) : await ask(thread, turn.typed, { typed: true });
  if (!asked) refillComposer(thread, turn.typed ?? turn.text, turn.typed === null ? turn.text : "");
}

/** Archives a user turn and all later ones, and puts its text into the composer. */
export async function truncate(thread: string, turn: Turn): Promise<boolean> {
  const done = await attempt(http.truncate(thread, turn.id));
  if (!done) return false;
  dispatchOwn({ type: "turns_removed", thread, from: turn.position });
  const unsent = draft.get(thread);
  const text = turn.typed ?? turn.text;
  refillComposer(thread, unsent.trim() ? `${text}\n\n${unsent}` : text, turn.typed === null ? text : "");
  notify(`${plural(done.archived, "turn")} archived.`);
  void refreshView();
  return true;
}

/** Brings in the turns that were made outside Clew, in the agent's own CLI. */
export async function bringIn(thread: string): Promise<void> {
  const done = await attempt(http.sync(thread));
  await refreshView();
  if (!done) return;
  const compacted = done.compacted ? "A session was compacted outside Clew: it holds the earlier turns only as a summary." : "";
  notify(`${plural(done.turns.length, "turn")} came in.`, compacted);
}

/** Starts a new thread with everything up to that turn; the old thread does not change. */
export async function fork(thread: string, turn: Turn): Promise<void> {
  const made = await attempt(http.fork(thread, turn.id));
  if (!made) return;
  dispatch({ type: "changed", version: 0, threads: [made], deleted: [] });
  go({ at: "thread", thread: made.id });
  notify(`This is “${made.name}”. The old thread has not changed.`);
}

/** `known` is the part of the text that the person may not have typed. */
type Refill = (thread: string, text: string, known?: string) => void;
let refill: Refill = () => undefined;

/** The composer registers here how it takes text from elsewhere. */
export const onRefill = (listener: Refill): void => {
  refill = listener;
};

export const refillComposer: Refill = (thread, text, known = "") => {
  draft.set(thread, text);
  draft.setKnown(thread, known);
  refill(thread, text);
};

export async function answer(question: Question, reply: Record<string, unknown>): Promise<boolean> {
  const done = await attempt(http.answer(question.run_id, { question_id: question.id, ...reply }));
  if (!done) {
    void refreshView(); // it may have been answered in another tab
    return false;
  }
  dispatchOwn({ type: "question_changed", question: { ...question, state: "answered" } });
  return true;
}

export async function makeThread(body: Record<string, unknown>): Promise<Thread | null> {
  const made = await attempt(http.makeThread(body), body.cwd);
  if (made) {
    dispatch({ type: "changed", version: 0, threads: [made], deleted: [] });
    go({ at: "thread", thread: made.id });
  }
  return made;
}

export async function changeThread(id: string, body: Record<string, unknown>): Promise<Thread | null> {
  const changed = await attempt(http.changeThread(id, body), body.cwd);
  if (changed) {
    dispatch({ type: "changed", version: 0, threads: [changed], deleted: [] });
    refreshSession();
  }
  return changed;
}

export async function deleteThread(id: string): Promise<boolean> {
  const done = await attempt(http.deleteThread(id));
  if (!done) return false;
  const { route } = page.now;
  if ("thread" in route && route.thread === id) go({ at: "home" });
  dispatch({ type: "changed", version: 0, threads: [], deleted: [id] });
  forgetThread(id);
  notify(`“${done.name}” is deleted.`, `Its archive: ${done.archive}`);
  return true;
}

export async function submitJob(body: Record<string, unknown>): Promise<Job | null> {
  const made = await attempt(http.submitJob(body), body.cwd);
  if (made) {
    putJob(made);
    go({ at: "job", job: made.id });
  }
  return made;
}

export interface RetryOptions {
  resume?: boolean;
  restore?: boolean;
  keep?: boolean;
}

/** Queues a stopped job again: in its session or in a fresh one, with the files of its checkpoint or the current ones. */
export async function retryJob(job: Job, { resume, ...files }: RetryOptions): Promise<void> {
  const queued = await attempt(http.retryJob(job.id, resume, files));
  if (queued) putJob(queued);
}

export async function cancelJob(job: Job): Promise<void> {
  const cancelled = await attempt(http.cancelJob(job.id));
  if (cancelled) putJob(cancelled);
}

export async function startReview(body: Record<string, unknown>): Promise<Round | null> {
  const round = await attempt(http.startReview(body), body.cwd);
  if (round) go({ at: "review", review: round.id, round: null });
  return round;
}

/** Starts the next round of a review and shows it. */
export async function startNextRound(id: string, body: Record<string, unknown>): Promise<boolean> {
  const round = await attempt(http.startNextRound(id, body));
  if (!round) return false;
  void refreshReview().catch(() => undefined);
  go({ at: "review", review: id, round: null });
  return true;
}

export const stopRound = async (run: string): Promise<boolean> => (await attempt(http.cancel(run))) !== null;

/** Saves the review as a Markdown file. */
export async function exportReview(id: string): Promise<void> {
  const text = await attempt(http.exportReview(id));
  if (text !== null) saveFile(`review-${id}.md`, new Blob([text], { type: "text/markdown" }));
}

/** Forgets the session, so that the next event of the issue starts a fresh one. */
export async function resetHook({ agent, repo, number }: HookSession): Promise<boolean> {
  const done = await attempt(http.resetHook({ agent, repo, number }));
  if (done) await attempt(refreshHooks());
  return done !== null;
}
