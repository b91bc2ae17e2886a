// Calls to the HTTP API of the daemon. An error carries the daemon's own problem details, or says that the daemon could
// not be reached.

import { pageKey } from "../state/storage.ts";
import { PendingKeys, randomKey, sendUntilAnswered } from "./idempotency.ts";
import type {
  AgentAhead,
  AgentList,
  AnsweredQuestion,
  ArchivedTurns,
  CompactedSession,
  DeletedThread,
  DirectoryList,
  EventList,
  Explanation,
  HookDropped,
  HookEventList,
  HookSessionList,
  HookSettings,
  JobList,
  ProposedEdits,
  Review,
  ReviewPage,
  Round,
  Run,
  SessionPreview,
  Settings,
  ShownJob,
  Stats,
  SyncedThread,
  Thread,
  ThreadPage,
  Turn,
  View,
} from "./wire.ts";

export const UNREACHABLE = "unreachable";

export class Problem extends Error {
  constructor(
    readonly status: number, // 0: nobody answered
    readonly code: string,
    detail: string,
    readonly hint: string,
  ) {
    super(detail);
  }
}

export type Body = Record<string, unknown>;

let responded: () => void = () => undefined;

/** Calls `listener` whenever the daemon has responded, whatever the status. */
export const onResponse = (listener: () => void): void => {
  responded = listener;
};

const pendingKeys = new PendingKeys(randomKey);

export async function call<T>(method: string, path: string, body?: Body): Promise<T> {
  const response = await (method === "POST" ? requestOnce(path, body) : request(method, path, body));
  return (response.status === 204 ? undefined : await response.json()) as T;
}

const text = async (path: string): Promise<string> => (await request("GET", path)).text();

/** Sends a form with a file. It is sent once: nobody wants a large file to be sent again unasked. */
export const upload = async <T>(path: string, form: FormData): Promise<T> =>
  (await request("POST", path, form)).json() as Promise<T>;

/** A request that creates something: however often it is sent, it is carried out once. */
async function requestOnce(path: string, body?: Body): Promise<Response> {
  const content = `${path}\n${JSON.stringify(body)}`;
  const key = pendingKeys.keyFor(content);
  try {
    const response = await request("POST", path, body, key);
    pendingKeys.answered(content);
    return response;
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.code !== UNREACHABLE) pendingKeys.answered(content);
    throw problem;
  }
}

export async function request(
  method: string,
  path: string,
  body?: Body | FormData,
  key?: string,
  signal?: AbortSignal,
): Promise<Response> {
  let response: Response;
  const send = (): Promise<Response> => {
    const headers: Record<string, string> = { "X-Clew-Key": pageKey.get() };
    if (body && !(body instanceof FormData)) headers["Content-Type"] = "application/json"; // a form names its own type
    if (key) headers["Idempotency-Key"] = key;
    return fetch(path, { method, headers, body: body instanceof FormData ? body : body && JSON.stringify(body), signal });
  };
  try {
    response = await (key ? sendUntilAnswered(send) : send());
  } catch {
    throw new Problem(0, UNREACHABLE, "Clew does not answer.", "Is clew serve still running?");
  }
  responded();
  if (response.ok) return response;
  const details = (await response.json().catch(() => ({}))) as { code?: string; detail?: string; title?: string; hint?: string };
  const message = details.detail ?? details.title ?? `The daemon responded with status ${response.status}.`;
  throw new Problem(response.status, details.code ?? "", message, details.hint ?? "");
}

export const part = encodeURIComponent;

export function query(values: Record<string, string | number | null | undefined>): string {
  const pairs = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return pairs.length ? `?${pairs.map(([key, value]) => `${key}=${part(String(value))}`).join("&")}` : "";
}

export const thread = (id: string): string => `/api/threads/${part(id)}`;
const run = (id: string): string => `/api/runs/${part(id)}`;
const job = (id: string): string => `/api/jobs/${part(id)}`;
const review = (id: string): string => `/api/reviews/${part(id)}`;

export const http = {
  threads: (q = "", offset = 0, limit = 50) =>
    call<ThreadPage>("GET", `/api/threads${query({ q, offset: offset || null, limit })}`),
  thread: (name: string) => call<Thread>("GET", thread(name)),
  makeThread: (body: Body) => call<Thread>("POST", "/api/threads", body),
  changeThread: (id: string, body: Body) => call<Thread>("PATCH", thread(id), body),
  deleteThread: (id: string) => call<DeletedThread>("DELETE", thread(id)),
  view: (id: string, before?: number, limit = 100) => call<View>("GET", `${thread(id)}/view${query({ before, limit })}`),
  session: (id: string, turn?: string) => call<SessionPreview>("GET", `${thread(id)}/session${query({ turn })}`),
  /** What `ask` with the same body would do. Without a prompt, only the decision is known. */
  explain: (id: string, { prompt, force_fresh_session, expand, known, ...how }: Body) =>
    prompt
      ? call<Explanation>("POST", `${thread(id)}/explain`, { prompt, force_fresh_session, expand, known, ...how })
      : call<Explanation>("GET", `${thread(id)}/session${query({ fresh: force_fresh_session ? "true" : "", ...how })}`),

  image: async (id: string, digest: string): Promise<Blob> =>
    (await request("GET", `${thread(id)}/images/${part(digest)}`)).blob(),
  editTurn: (id: string, turn: string, text: string) =>
    call<Turn>("PATCH", `${thread(id)}/turns/${part(turn)}`, { text, expand: true }),
  fork: (id: string, turn: string) => call<Thread>("POST", `${thread(id)}/fork`, { turn }),
  truncate: (id: string, turn: string) => call<ArchivedTurns>("POST", `${thread(id)}/truncate`, { turn }),
  compact: (id: string, focus: string) => call<CompactedSession>("POST", `${thread(id)}/compact`, { focus }),
  clear: (id: string) => call<ArchivedTurns>("POST", `${thread(id)}/clear`),
  retry: (id: string, turn: string, fresh: boolean) =>
    call<Run>("POST", `${thread(id)}/retry`, fresh ? { turn, force_fresh_session: true } : { turn }),
  /** Brings in the turns that were made outside Clew. */
  sync: (id: string) => call<SyncedThread>("POST", `${thread(id)}/sync`),

  /** Starts the agent of the next turn, once: a second request would come too late to be of use. */
  startAhead: async (id: string) => (await request("POST", `${thread(id)}/start-ahead`)).json() as Promise<AgentAhead>,

  ask: (id: string, body: Body) => call<Run>("POST", `${thread(id)}/runs`, body),
  changePrompt: (id: string, prompt: string) => call<Run>("PATCH", run(id), { prompt, expand: true }),
  removeRun: (id: string) => call<void>("DELETE", run(id)),
  cancel: (id: string) => call<Run>("POST", `${run(id)}/cancel`),
  continueAfterLimit: (id: string) => call<Run>("POST", `${run(id)}/continue`),
  send: (id: string) => call<Run>("POST", `${run(id)}/send`),
  steps: (id: string) => call<EventList>("GET", `${run(id)}/steps`),
  /** What the tool that a question is about would change in files, as they are now. */
  proposedEdits: (id: string, question: string) =>
    call<ProposedEdits>("GET", `${run(id)}/questions/${part(question)}/edits`),
  answer: (id: string, body: Body) => call<AnsweredQuestion>("POST", `${run(id)}/tool-result`, body),

  jobs: (limit = 50) => call<JobList>("GET", `/api/jobs${query({ limit })}`),
  job: (id: string) => call<ShownJob>("GET", job(id)),
  submitJob: (body: Body) => call<ShownJob>("POST", "/api/jobs", body),
  retryJob: (id: string, resume: boolean | undefined, body: Body) =>
    call<ShownJob>("POST", `${job(id)}/retry${query({ resume: resume === undefined ? null : String(resume) })}`, body),
  cancelJob: (id: string) => call<ShownJob>("POST", `${job(id)}/cancel`),

  reviews: (limit = 50) => call<ReviewPage>("GET", `/api/reviews${query({ limit })}`),
  review: (id: string) => call<Review>("GET", review(id)),
  startReview: (body: Body) => call<Round>("POST", "/api/reviews", body),
  startNextRound: (id: string, body: Body) => call<Round>("POST", `${review(id)}/rounds`, body),
  diff: (id: string, round: number) => text(`${review(id)}/rounds/${round}/diff`),
  exportReview: (id: string) => text(`${review(id)}/export${query({ format: "md" })}`),

  hookSettings: () => call<HookSettings>("GET", "/api/hooks/settings"),
  hookSessions: () => call<HookSessionList>("GET", "/api/hooks/sessions"),
  hookEvents: (limit = 50) => call<HookEventList>("GET", `/api/hooks/events${query({ limit })}`),
  resetHook: (body: Body) => call<HookDropped>("POST", "/api/hooks/reset", body),

  agents: () => call<AgentList>("GET", "/api/agents"),
  stats: (threadId?: string, days?: number) => call<Stats>("GET", `/api/stats${query({ thread: threadId, days })}`),
  settings: () => call<Settings>("GET", "/api/settings"),
  dirs: (path: string) => call<DirectoryList>("GET", `/api/dirs${query({ path })}`),
};
