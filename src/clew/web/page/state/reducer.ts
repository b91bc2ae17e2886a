// The state of threads and of the open conversation, and the one pure function that changes it. Everything that the daemon
// sends about threads, turns, runs and questions goes through `reduce`, and nothing else changes them.

import { isActive, type Question, type Run, type RunEvent, type Thread, type Turn, type View } from "../daemon/wire.ts";
import { applyEvents, NO_PROGRESS, type Progress } from "./progress.ts";

export interface ConversationState {
  thread: Thread;
  turns: readonly Turn[]; // the oldest first; the newest page is always loaded
  turnsBefore: number; // how many turns are before the first of these
  more: boolean; // there are earlier turns to load
  runs: readonly Run[]; // the active ones in their order, and the newest if it ended without an answer
  questions: readonly Question[];
  outsideTurns: number; // were made outside Clew, and can be brought in
  version: number;
}

export interface DaemonState {
  version: number; // of the newest change
  threads: readonly Thread[]; // the last used first
  total: number;
  listed: boolean;
  found: readonly Thread[] | null; // the search results; null: no search
  open: string | null; // the thread that is shown
  conversation: ConversationState | null;
  missing: boolean; // the open thread does not exist
  progress: Readonly<Record<string, Progress>>; // of the open thread's runs, by id
}

export const EMPTY_STATE: DaemonState = {
  version: 0,
  threads: [],
  total: 0,
  listed: false,
  found: null,
  open: null,
  conversation: null,
  missing: false,
  progress: {},
};

export type Update =
  | { type: "threads_listed"; items: Thread[]; total: number; version: number }
  | { type: "threads_added"; items: Thread[]; total: number }
  | { type: "threads_searched"; items: Thread[] | null }
  | { type: "thread_opened"; id: string | null }
  | { type: "thread_not_found"; id: string }
  | { type: "view_loaded"; view: View }
  | { type: "earlier_loaded"; thread: string; view: View }
  | { type: "changed"; version: number; threads: Thread[]; deleted: string[] }
  | { type: "events_received"; thread: string; run: string; events: readonly RunEvent[] }
  | { type: "run_changed"; run: Run }
  | { type: "run_removed"; run: string }
  | { type: "turn_changed"; turn: Turn }
  | { type: "turns_removed"; thread: string; from: number }
  | { type: "question_changed"; question: Question };

export function reduce(state: DaemonState, update: Update): DaemonState {
  switch (update.type) {
    case "threads_listed":
      return {
        ...state,
        threads: byLastUse(update.items),
        total: update.total,
        listed: true,
        version: Math.max(state.version, update.version),
      };
    case "threads_added":
      return { ...state, threads: upsert(state.threads, update.items), total: update.total };
    case "threads_searched":
      return { ...state, found: update.items };
    case "thread_opened":
      if (update.id === state.open) return state;
      return { ...state, open: update.id, conversation: null, missing: false, progress: {} };
    case "thread_not_found":
      return update.id === state.open ? { ...state, missing: true, conversation: null } : state;
    case "view_loaded":
      return withView(state, update.view);
    case "earlier_loaded":
      return withEarlier(state, update.thread, update.view);
    case "changed":
      return withChanges(state, update);
    case "events_received": {
      if (update.thread !== state.open) return state;
      const before = state.progress[update.run] ?? NO_PROGRESS;
      const after = applyEvents(before, update.events);
      return after === before ? state : { ...state, progress: { ...state.progress, [update.run]: after } };
    }
    case "run_changed":
      return updateConversation(state, update.run.thread_id, (now) => ({ ...now, runs: withRun(now, update.run) }));
    case "run_removed":
      return updateConversation(state, state.open, (now) => ({ ...now, runs: now.runs.filter((r) => r.id !== update.run) }));
    case "turn_changed":
      return updateConversation(state, state.open, (now) => ({
        ...now,
        turns: now.turns.map((turn) => (turn.id === update.turn.id ? { ...turn, ...update.turn } : turn)),
      }));
    case "turns_removed":
      return updateConversation(state, update.thread, (now) => ({
        ...now,
        turns: now.turns.filter((turn) => turn.position < update.from),
      }));
    case "question_changed":
      return updateConversation(state, update.question.thread_id, (now) => ({
        ...now,
        questions: now.questions.filter((each) => each.id !== update.question.id || update.question.state === "open"),
      }));
  }
}

/** The last event that the page has of each run that has not ended: the daemon continues from there. */
export function cursors(state: DaemonState): Record<string, number> {
  const open = Object.entries(state.progress).filter(([, progress]) => !progress.ended);
  return Object.fromEntries(open.map(([run, progress]) => [run, progress.seq]));
}

function withView(state: DaemonState, view: View): DaemonState {
  const now = state.conversation;
  if (view.thread.id !== state.open) return state;
  if (now && now.version > view.version) return state; // a newer view was loaded in the meantime
  const first = view.turns[0]?.position ?? Number.NEGATIVE_INFINITY;
  const shown = new Set(view.turns.map((turn) => turn.id));
  // A view is the newest page of the thread. Earlier pages that were loaded stay, unless turns came in between them: then
  // there are more turns than before, and the pages are loaded again.
  const earlier = now && view.more ? now.turns.filter((turn) => turn.position < first && !shown.has(turn.id)) : [];
  const before = view.thread.turns - view.turns.length - earlier.length;
  const kept = before === now?.turnsBefore ? earlier : [];
  return {
    ...state,
    missing: false,
    threads: upsert(state.threads, chats([view.thread])),
    conversation: {
      thread: view.thread,
      turns: [...kept, ...view.turns],
      turnsBefore: view.thread.turns - view.turns.length - kept.length,
      more: kept.length > 0 && now ? now.more : view.more,
      runs: view.runs,
      questions: view.questions,
      outsideTurns: view.outside_turns,
      version: view.version,
    },
    progress: neededProgress(state.progress, view, kept),
  };
}

/** The progress of active runs and of shown turns, whose steps it contains. */
function neededProgress(progress: DaemonState["progress"], view: View, kept: readonly Turn[]): DaemonState["progress"] {
  const wanted = new Set([...view.runs.map((run) => run.id), ...[...kept, ...view.turns].map((turn) => turn.run_id)]);
  const entries = Object.entries(progress);
  const left = entries.filter(([run, each]) => wanted.has(run) || !each.ended);
  return left.length === entries.length ? progress : Object.fromEntries(left);
}

function withEarlier(state: DaemonState, thread: string, view: View): DaemonState {
  return updateConversation(state, thread, (now) => {
    const first = now.turns[0]?.position ?? Number.POSITIVE_INFINITY;
    const older = view.turns.filter((turn) => turn.position < first);
    return { ...now, turns: [...older, ...now.turns], turnsBefore: now.turnsBefore - older.length, more: view.more };
  });
}

function withChanges(state: DaemonState, update: Extract<Update, { type: "changed" }>): DaemonState {
  const deleted = new Set(update.deleted);
  const threads = upsert(state.threads, chats(update.threads)).filter((thread) => !deleted.has(thread.id));
  const next: DaemonState = {
    ...state,
    version: Math.max(state.version, update.version),
    threads,
    total: Math.max(state.total - deleted.size, threads.length),
    found: state.found && replace(state.found, update.threads).filter((thread) => !deleted.has(thread.id)),
  };
  if (state.open && deleted.has(state.open)) return { ...next, conversation: null, missing: true, progress: {} };
  const open = update.threads.find((thread) => thread.id === state.open);
  return open && next.conversation ? { ...next, conversation: { ...next.conversation, thread: open } } : next;
}

function updateConversation(
  state: DaemonState,
  thread: string | null,
  update: (now: ConversationState) => ConversationState,
): DaemonState {
  const now = state.conversation;
  return now && now.thread.id === thread ? { ...state, conversation: update(now) } : state;
}

function withRun(now: ConversationState, run: Run): readonly Run[] {
  if (now.runs.some((each) => each.id === run.id)) return now.runs.map((each) => (each.id === run.id ? run : each));
  return isActive(run.status) ? [...now.runs, run] : now.runs;
}

/** Threads of jobs, reviews and hooks have lists of their own. */
const chats = (threads: readonly Thread[]): readonly Thread[] => threads.filter((thread) => thread.kind === "chat");

function replace(threads: readonly Thread[], newer: readonly Thread[]): readonly Thread[] {
  const byId = new Map(newer.map((thread) => [thread.id, thread]));
  return threads.map((thread) => byId.get(thread.id) ?? thread);
}

function upsert(threads: readonly Thread[], newer: readonly Thread[]): readonly Thread[] {
  if (newer.length === 0) return threads;
  const ids = new Set(newer.map((thread) => thread.id));
  return byLastUse([...newer, ...threads.filter((thread) => !ids.has(thread.id))]);
}

function byLastUse(threads: readonly Thread[]): readonly Thread[] {
  return [...threads].sort((a, b) => (a.updated_at < b.updated_at ? 1 : a.updated_at > b.updated_at ? -1 : 0));
}
