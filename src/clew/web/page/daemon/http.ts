// Calls to the daemon. An error is the daemon's own problem details, or says that it could not be reached.

import { pageKey } from "./keep.ts";
import { randomKey, Unanswered, untilAnswered } from "./once.ts";
import type {
  Agent,
  HookEvent,
  HookSession,
  HookSettings,
  JobList,
  Question,
  Review,
  ReviewNote,
  Round,
  Run,
  RunEvent,
  SessionSays,
  Settings,
  ShownJob,
  Stats,
  Thread,
  ThreadList,
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

type Body = Record<string, unknown>;

type Answers = () => void;
let answers: Answers = () => undefined;

/** Who wants to know that the daemon answered, whatever it said. */
export const onAnswer = (tell: Answers): void => {
  answers = tell;
};

const unanswered = new Unanswered(randomKey);

async function call<T>(method: string, path: string, body?: Body): Promise<T> {
  const response = await (method === "POST" ? once(path, body) : answered(method, path, body));
  return (response.status === 204 ? undefined : await response.json()) as T;
}

const text = async (path: string): Promise<string> => (await answered("GET", path)).text();

/** A request that makes something: however often it is sent, it is carried out once. */
async function once(path: string, body?: Body): Promise<Response> {
  const request = `${path}\n${JSON.stringify(body)}`;
  const key = unanswered.keyFor(request);
  try {
    const response = await answered("POST", path, body, key);
    unanswered.answered(request);
    return response;
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.code !== UNREACHABLE) unanswered.answered(request);
    throw problem;
  }
}

async function answered(method: string, path: string, body?: Body, key?: string): Promise<Response> {
  let response: Response;
  const send = (): Promise<Response> => {
    const headers: Record<string, string> = { "X-Clew-Key": pageKey.get() };
    if (body) headers["Content-Type"] = "application/json";
    if (key) headers["Idempotency-Key"] = key;
    return fetch(path, { method, headers, body: body ? JSON.stringify(body) : undefined });
  };
  try {
    response = await (key ? untilAnswered(send) : send());
  } catch {
    throw new Problem(0, UNREACHABLE, "Clew does not answer.", "Is clew serve still running?");
  }
  answers();
  if (response.ok) return response;
  const said = (await response.json().catch(() => ({}))) as { code?: string; detail?: string; title?: string; hint?: string };
  const words = said.detail ?? said.title ?? `The daemon answered ${response.status}.`;
  throw new Problem(response.status, said.code ?? "", words, said.hint ?? "");
}

const part = encodeURIComponent;

function query(values: Record<string, string | number | null | undefined>): string {
  const pairs = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return pairs.length ? `?${pairs.map(([key, value]) => `${key}=${part(String(value))}`).join("&")}` : "";
}

const thread = (id: string): string => `/api/threads/${part(id)}`;
const run = (id: string): string => `/api/runs/${part(id)}`;
const job = (id: string): string => `/api/jobs/${part(id)}`;
const review = (id: string): string => `/api/reviews/${part(id)}`;

export const http = {
  threads: (q = "", offset = 0, limit = 50) =>
    call<ThreadList>("GET", `/api/threads${query({ q, offset: offset || null, limit })}`),
  makeThread: (body: Body) => call<Thread>("POST", "/api/threads", body),
  changeThread: (id: string, body: Body) => call<Thread>("PATCH", thread(id), body),
  deleteThread: (id: string) => call<{ name: string; turns: number; archive: string }>("DELETE", thread(id)),
  view: (id: string, before?: number, limit = 100) => call<View>("GET", `${thread(id)}/view${query({ before, limit })}`),
  session: (id: string, turn?: string) => call<SessionSays>("GET", `${thread(id)}/session${query({ turn })}`),

  editTurn: (id: string, turn: string, text: string) =>
    call<Turn>("PATCH", `${thread(id)}/turns/${part(turn)}`, { text }),
  fork: (id: string, turn: string) => call<Thread>("POST", `${thread(id)}/fork`, { turn }),
  truncate: (id: string, turn: string) => call<{ archived: number }>("POST", `${thread(id)}/truncate`, { turn }),
  retry: (id: string, turn: string) => call<Run>("POST", `${thread(id)}/retry`, { turn }),

  ask: (id: string, body: Body) => call<Run>("POST", `${thread(id)}/runs`, body),
  run: (id: string) => call<Run>("GET", run(id)),
  changePrompt: (id: string, prompt: string) => call<Run>("PATCH", run(id), { prompt }),
  takeBack: (id: string) => call<void>("DELETE", run(id)),
  cancel: (id: string) => call<Run>("POST", `${run(id)}/cancel`),
  continueAfterLimit: (id: string) => call<Run>("POST", `${run(id)}/continue`),
  send: (id: string) => call<Run>("POST", `${run(id)}/send`),
  steps: (id: string) => call<{ items: RunEvent[] }>("GET", `${run(id)}/steps`),
  answer: (id: string, body: Body) =>
    call<Question & { follow_up_run_id?: string }>("POST", `${run(id)}/tool-result`, body),

  jobs: (limit = 50) => call<JobList>("GET", `/api/jobs${query({ limit })}`),
  job: (id: string) => call<ShownJob>("GET", job(id)),
  submitJob: (body: Body) => call<ShownJob>("POST", "/api/jobs", body),
  retryJob: (id: string, resume: boolean | undefined, body: Body) =>
    call<ShownJob>("POST", `${job(id)}/retry${query({ resume: resume === undefined ? null : String(resume) })}`, body),
  cancelJob: (id: string) => call<ShownJob>("POST", `${job(id)}/cancel`),

  reviews: (limit = 50) => call<{ items: ReviewNote[]; total: number }>("GET", `/api/reviews${query({ limit })}`),
  review: (id: string) => call<Review>("GET", review(id)),
  startReview: (body: Body) => call<Round>("POST", "/api/reviews", body),
  followReview: (id: string, body: Body) => call<Round>("POST", `${review(id)}/rounds`, body),
  diff: (id: string, round: number) => text(`${review(id)}/rounds/${round}/diff`),
  exportReview: (id: string) => text(`${review(id)}/export${query({ format: "md" })}`),

  hookSettings: () => call<HookSettings>("GET", "/api/hooks/settings"),
  hookSessions: () => call<{ items: HookSession[] }>("GET", "/api/hooks/sessions"),
  hookEvents: (limit = 50) => call<{ items: HookEvent[] }>("GET", `/api/hooks/events${query({ limit })}`),
  resetHook: (body: Body) => call<{ dropped: boolean }>("POST", "/api/hooks/reset", body),

  agents: () => call<{ items: Agent[] }>("GET", "/api/agents"),
  stats: (threadId?: string, days?: number) => call<Stats>("GET", `/api/stats${query({ thread: threadId, days })}`),
  settings: () => call<Settings>("GET", "/api/settings"),
  dirs: (path: string) =>
    call<{ path: string; parent: string | null; items: string[] }>("GET", `/api/dirs${query({ path })}`),
};
