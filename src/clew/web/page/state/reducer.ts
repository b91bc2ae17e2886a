// The page's state and the one pure function that moves it. Everything that the daemon says comes through here; nothing
// else may change what a thread, a turn, a run or a question is.

import { advance, NO_PROGRESS, type Progress } from "./progress.ts";
import { isActive, type Question, type Run, type RunEvent, type Thread, type Turn, type View } from "./wire.ts";

export interface Conversation {
  thread: Thread;
  turns: readonly Turn[]; // oldest first, the newest always among them
  more: boolean; // earlier ones are on the server
  runs: readonly Run[]; // not over yet, in their order; and the newest without an answer
  questions: readonly Question[];
  version: number;
}

export interface State {
  version: number; // of the newest thing heard
  threads: readonly Thread[]; // the last used first
  total: number;
  listed: boolean;
  query: string;
  found: readonly Thread[] | null; // what the search found; null: no search
  open: string | null; // the thread that is shown
  conversation: Conversation | null;
  missing: boolean; // the open thread is not there
  progress: Readonly<Record<string, Progress>>; // of the open thread's runs, by id
}

export const EMPTY: State = {
  version: 0,
  threads: [],
  total: 0,
  listed: false,
  query: "",
  found: null,
  open: null,
  conversation: null,
  missing: false,
  progress: {},
};

export type Heard =
  | { type: "threads_listed"; items: Thread[]; total: number; version: number }
  | { type: "threads_added"; items: Thread[]; total: number }
  | { type: "threads_searched"; query: string; items: Thread[] | null }
  | { type: "thread_opened"; id: string | null }
  | { type: "thread_missed"; id: string }
  | { type: "view_came"; view: View }
  | { type: "earlier_came"; thread: string; view: View }
  | { type: "changed"; version: number; threads: Thread[]; deleted: string[] }
  | { type: "events_came"; thread: string; run: string; events: readonly RunEvent[] }
  | { type: "run_changed"; run: Run }
  | { type: "run_removed"; run: string }
  | { type: "turn_changed"; turn: Turn }
  | { type: "turns_removed"; thread: string; from: number }
  | { type: "question_changed"; question: Question };

export function reduce(state: State, heard: Heard): State {
  switch (heard.type) {
    case "threads_listed":
      return {
        ...state,
        threads: sorted(heard.items),
        total: heard.total,
        listed: true,
        version: Math.max(state.version, heard.version),
      };
    case "threads_added":
      return { ...state, threads: upserted(state.threads, heard.items), total: heard.total };
    case "threads_searched":
      return { ...state, query: heard.query, found: heard.items };
    case "thread_opened":
      if (heard.id === state.open) return state;
      return { ...state, open: heard.id, conversation: null, missing: false, progress: {} };
    case "thread_missed":
      return heard.id === state.open ? { ...state, missing: true, conversation: null } : state;
    case "view_came":
      return viewed(state, heard.view);
    case "earlier_came":
      return earlier(state, heard.thread, heard.view);
    case "changed":
      return changed(state, heard);
    case "events_came": {
      if (heard.thread !== state.open) return state;
      const before = state.progress[heard.run] ?? NO_PROGRESS;
      const after = advance(before, heard.events);
      return after === before ? state : { ...state, progress: { ...state.progress, [heard.run]: after } };
    }
    case "run_changed":
      return inConversation(state, heard.run.thread_id, (now) => ({ ...now, runs: withRun(now, heard.run) }));
    case "run_removed":
      return inConversation(state, state.open, (now) => ({ ...now, runs: now.runs.filter((r) => r.id !== heard.run) }));
    case "turn_changed":
      return inConversation(state, state.open, (now) => ({
        ...now,
        turns: now.turns.map((turn) => (turn.id === heard.turn.id ? { ...turn, ...heard.turn } : turn)),
      }));
    case "turns_removed":
      return inConversation(state, heard.thread, (now) => ({
        ...now,
        turns: now.turns.filter((turn) => turn.position < heard.from),
      }));
    case "question_changed":
      return inConversation(state, heard.question.thread_id, (now) => ({
        ...now,
        questions: now.questions.filter((each) => each.id !== heard.question.id || heard.question.state === "open"),
      }));
  }
}

/** Where the page stands in each run that it has not seen the end of, for the daemon to go on from. */
export function cursors(state: State): Record<string, number> {
  const open = Object.entries(state.progress).filter(([, progress]) => !progress.ended);
  return Object.fromEntries(open.map(([run, progress]) => [run, progress.seq]));
}

function viewed(state: State, view: View): State {
  const now = state.conversation;
  if (view.thread.id !== state.open) return state;
  if (now && now.version > view.version) return state; // an answer that was overtaken by a newer one
  const first = view.turns[0]?.position ?? Number.NEGATIVE_INFINITY;
  // Earlier pages that were loaded stay: a view is the end of the thread.
  const kept = now && view.more ? now.turns.filter((turn) => turn.position < first) : [];
  return {
    ...state,
    missing: false,
    threads: upserted(state.threads, listed([view.thread])),
    conversation: {
      thread: view.thread,
      turns: [...kept, ...view.turns],
      more: kept.length > 0 && now ? now.more : view.more,
      runs: view.runs,
      questions: view.questions,
      version: view.version,
    },
    progress: pruned(state.progress, view, kept),
  };
}

/** Progress is kept for runs that go on and for turns that are shown: it holds their steps. */
function pruned(progress: State["progress"], view: View, kept: readonly Turn[]): State["progress"] {
  const wanted = new Set([...view.runs.map((run) => run.id), ...[...kept, ...view.turns].map((turn) => turn.run_id)]);
  const entries = Object.entries(progress);
  const left = entries.filter(([run, each]) => wanted.has(run) || !each.ended);
  return left.length === entries.length ? progress : Object.fromEntries(left);
}

function earlier(state: State, thread: string, view: View): State {
  return inConversation(state, thread, (now) => {
    const first = now.turns[0]?.position ?? Number.POSITIVE_INFINITY;
    const older = view.turns.filter((turn) => turn.position < first);
    return { ...now, turns: [...older, ...now.turns], more: view.more };
  });
}

function changed(state: State, heard: { version: number; threads: Thread[]; deleted: string[] }): State {
  const gone = new Set(heard.deleted);
  const threads = upserted(state.threads, listed(heard.threads)).filter((thread) => !gone.has(thread.id));
  const next: State = {
    ...state,
    version: Math.max(state.version, heard.version),
    threads,
    total: Math.max(state.total - gone.size, threads.length),
    found: state.found && replaced(state.found, heard.threads).filter((thread) => !gone.has(thread.id)),
  };
  if (state.open && gone.has(state.open)) return { ...next, conversation: null, missing: true, progress: {} };
  const open = heard.threads.find((thread) => thread.id === state.open);
  return open && next.conversation ? { ...next, conversation: { ...next.conversation, thread: open } } : next;
}

function inConversation(state: State, thread: string | null, move: (now: Conversation) => Conversation): State {
  const now = state.conversation;
  return now && now.thread.id === thread ? { ...state, conversation: move(now) } : state;
}

function withRun(now: Conversation, run: Run): readonly Run[] {
  if (now.runs.some((each) => each.id === run.id)) return now.runs.map((each) => (each.id === run.id ? run : each));
  return isActive(run.status) ? [...now.runs, run] : now.runs;
}

/** The list is of conversations: a job has a place of its own. */
const listed = (threads: readonly Thread[]): readonly Thread[] => threads.filter((thread) => thread.kind === "chat");

function replaced(threads: readonly Thread[], newer: readonly Thread[]): readonly Thread[] {
  const byId = new Map(newer.map((thread) => [thread.id, thread]));
  return threads.map((thread) => byId.get(thread.id) ?? thread);
}

function upserted(threads: readonly Thread[], newer: readonly Thread[]): readonly Thread[] {
  if (newer.length === 0) return threads;
  const ids = new Set(newer.map((thread) => thread.id));
  return sorted([...newer, ...threads.filter((thread) => !ids.has(thread.id))]);
}

function sorted(threads: readonly Thread[]): readonly Thread[] {
  return [...threads].sort((a, b) => (a.updated_at < b.updated_at ? 1 : a.updated_at > b.updated_at ? -1 : 0));
}
