// The page's two stores and what keeps them in step with the daemon: first the list, then the WebSocket, then the view
// of the open thread, then its events. After a break the same again, from where the page stood.

import { http, onAnswer, Problem, UNREACHABLE } from "./http.ts";
import { hooks, refreshHooks, refreshHookSettings } from "./hooks.ts";
import { openJob, refreshJobs } from "./jobs.ts";
import { seen } from "./keep.ts";
import { Live } from "./live.ts";
import { refresher } from "./refresher.ts";
import { openReview, refreshReview, refreshReviews } from "./reviews.ts";
import { cursors, EMPTY, reduce, type Heard, type State } from "./state.ts";
import { Store } from "./store.ts";
import type { Agent, HookSession, SessionSays, Settings } from "./wire.ts";

export type Route =
  | { at: "home" }
  | { at: "nowhere" } // an address that means nothing
  | { at: "thread"; thread: string }
  | { at: "changes"; thread: string }
  | { at: "jobs" }
  | { at: "job"; job: string }
  | { at: "reviews" }
  | { at: "review"; review: string; round: number | null } // null: the newest
  | { at: "hooks" }
  | { at: "savings" }
  | { at: "agents" };

export type Dialog =
  | { is: "new" }
  | { is: "job" }
  | { is: "review" }
  | { is: "settings" | "rename" | "delete"; thread: string }
  | { is: "reset"; session: HookSession }
  | { is: "help" }
  | null;

export interface Notice {
  id: number;
  tone: "plain" | "problem";
  text: string;
  hint: string;
  code: string; // of the problem; empty: it is none
}

/** Why what a dialog asked for was not done. A notice would stand under the dialog's shade. */
export interface Complaint {
  text: string;
  hint: string;
  code: string;
  field: "cwd" | null; // null: it is about no field
}

export interface Surroundings {
  connection: "connecting" | "open" | "lost" | "refused";
  route: Route;
  dialog: Dialog;
  complaint: Complaint | null; // in the open dialog
  notices: readonly Notice[];
  settings: Settings | null;
  agents: readonly Agent[] | null;
  session: (SessionSays & { thread: string }) | null; // what the next turn does
  editing: string | null; // the turn whose text is being changed
  browsing: boolean; // threads are being stepped through by keys: the composer does not take the focus
}

export const daemon = new Store<State>(EMPTY);
export const page = new Store<Surroundings>({
  connection: "connecting",
  route: { at: "home" },
  dialog: null,
  complaint: null,
  notices: [],
  settings: null,
  agents: null,
  session: null,
  editing: null,
  browsing: false,
});

export const hear = (heard: Heard): void => daemon.set(reduce(daemon.now, heard));

let deeds = 0;

/** The daemon's answer to something that this page did: a view that was asked for before may not know of it yet. */
export const hearDone = (heard: Heard): void => {
  deeds += 1;
  hear(heard);
};

const live = new Live({
  version: () => daemon.now.version,
  greeted: (again) => void greeted(again),
  lost: () => {
    if (page.now.connection !== "refused") page.patch({ connection: "lost" });
    void http.settings().catch(refusedBy); // a WebSocket does not say that it was refused
  },
  heard: (message) => {
    if (message.type === "changed") {
      hear(message);
      if (message.threads.some((thread) => thread.id === daemon.now.open)) refreshView();
      if (message.threads.some((thread) => thread.kind === "job" || thread.kind === "hook")) void quietly(refreshJobs());
      if (message.threads.some((thread) => thread.kind === "hook")) void quietly(refreshHooksShown());
      if (message.deleted.length > 0 || message.threads.some((thread) => thread.kind === "review")) {
        void quietly(refreshReviewsShown());
      }
    } else if (message.type === "events") {
      hear({ type: "events_came", thread: message.thread, run: message.run, events: message.events });
    }
  },
});

export async function start(): Promise<void> {
  window.addEventListener("hashchange", route);
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && live.hurry());
  route();
  try {
    await refreshList();
  } catch (problem) {
    refusedBy(problem);
    page.patch({ connection: page.now.connection === "refused" ? "refused" : "lost" });
  }
  live.connect();
  void refreshSurroundings();
  void quietly(refreshJobs());
}

/** What was said about a daemon that did not answer is over: it does. */
function answered(): void {
  const { notices, complaint } = page.now;
  if (notices.some((notice) => notice.code === UNREACHABLE)) {
    page.patch({ notices: notices.filter((notice) => notice.code !== UNREACHABLE) });
  }
  if (complaint?.code === UNREACHABLE) page.patch({ complaint: null });
}

onAnswer(answered);

async function greeted(again: boolean): Promise<void> {
  page.patch({ connection: "open" });
  answered();
  if (again || !daemon.now.listed) {
    await quietly(Promise.all([refreshList(), refreshView(), refreshJobs(), refreshReviewsShown(), refreshHooksShown()]));
    void refreshSurroundings();
  }
  watch();
}

function watch(): void {
  live.watch(daemon.now.open, cursors(daemon.now));
}

export async function refreshList(): Promise<void> {
  const { items, total, version } = await http.threads();
  hear({ type: "threads_listed", items, total, version });
}

/** Reviews are large: only what is looked at is asked for again. */
async function refreshReviewsShown(): Promise<void> {
  const { at } = page.now.route;
  if (at === "reviews") await refreshReviews();
  if (at === "review") await refreshReview();
}

/** The first session may be the first that is heard of hooks at all. */
async function refreshHooksShown(): Promise<void> {
  if (!hooks.now.settings?.is_used) await refreshHookSettings();
  if (page.now.route.at === "hooks") await refreshHooks();
}

export async function refreshSurroundings(): Promise<void> {
  await quietly(
    Promise.all([
      http.settings().then((settings) => page.patch({ settings })),
      http.agents().then(({ items }) => page.patch({ agents: items })),
      refreshHookSettings(),
    ]),
  );
}

export const refreshView = refresher(loadView);

async function loadView(): Promise<void> {
  const id = daemon.now.open;
  if (!id) return;
  try {
    const before = deeds;
    const view = await http.view(id);
    if (deeds !== before) {
      void refreshView();
      return;
    }
    hear({ type: "view_came", view });
    if (document.visibilityState === "visible") seen.mark(id, view.thread.updated_at);
    refreshSession();
  } catch (problem) {
    if (problem instanceof Problem && problem.status === 404) hear({ type: "thread_missed", id });
    else if (problem instanceof Problem && problem.status >= 500) notify(problem.message, problem.hint, "problem", problem.code);
    else refusedBy(problem); // nobody answered: the view comes with the next greeting
  }
}

export function refreshSession(): void {
  const id = daemon.now.open;
  if (!id) return;
  void quietly(
    http.session(id).then((session) => {
      if (daemon.now.open === id) page.patch({ session: { ...session, thread: id } });
    }),
  );
}

export async function loadEarlier(): Promise<void> {
  const now = daemon.now.conversation;
  const first = now?.turns[0];
  if (!now?.more || !first) return;
  const view = await http.view(now.thread.id, first.position);
  hear({ type: "earlier_came", thread: now.thread.id, view });
}

/** Half an escape in an address is no reason to show nothing. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function route(): void {
  const [, first, second, third] = location.hash.split("/");
  const id = decoded(second ?? "");
  const next = meant(first ?? "", id, third ?? "");
  page.patch({ route: next, editing: null });
  if (next.at === "job") void quietly(openJob(next.job).then((job) => job && show(job.thread_id)));
  else if (next.at === "review") {
    void quietly(openReview(next.review).then((review) => review && isShown(review.id) && show(review.thread_id)));
  } else if ("thread" in next) show(next.thread);
}

const isShown = (review: string): boolean => page.now.route.at === "review" && page.now.route.review === review;

function meant(first: string, id: string, third: string): Route {
  if (first === "t" && id) return { at: third === "changes" ? "changes" : "thread", thread: id };
  if (first === "jobs" && id) return { at: "job", job: id };
  if (first === "reviews" && id) return { at: "review", review: id, round: Number(third) || null };
  const view = VIEWS.find((each) => each === first);
  return { at: view ?? (first ? "nowhere" : "home") };
}

const VIEWS = ["jobs", "reviews", "hooks", "savings", "agents"] as const;

function show(thread: string): void {
  if (thread === daemon.now.open) return;
  hear({ type: "thread_opened", id: thread });
  page.patch({ session: null });
  void refreshView().then(() => {
    if (daemon.now.open === thread) watch();
  });
}

export const reviewHash = (id: string, round: number | null = null): string =>
  `#/reviews/${encodeURIComponent(id)}${round === null ? "" : `/${round}`}`;

export function go(to: Route): void {
  const hash =
    to.at === "thread" || to.at === "changes"
      ? `#/t/${encodeURIComponent(to.thread)}${to.at === "changes" ? "/changes" : ""}`
      : to.at === "job"
        ? `#/jobs/${encodeURIComponent(to.job)}`
        : to.at === "review"
          ? reviewHash(to.review, to.round)
          : to.at === "home" || to.at === "nowhere"
            ? "#/"
            : `#/${to.at}`;
  location.hash = hash;
}

let notices = 0;

export function notify(text: string, hint = "", tone: Notice["tone"] = "plain", code = ""): void {
  const notice = { id: ++notices, tone, text, hint, code };
  const others = page.now.notices.filter((each) => each.text !== text); // said once
  page.patch({ notices: [...others.slice(-2), notice] });
  setTimeout(() => dismiss(notice.id), tone === "problem" ? 12_000 : 6_000);
}

export const dismiss = (id: number): void =>
  page.patch({ notices: page.now.notices.filter((notice) => notice.id !== id) });

function refusedBy(problem: unknown): void {
  if (problem instanceof Problem && problem.status === 401) page.patch({ connection: "refused" });
}

async function quietly(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (problem) {
    refusedBy(problem);
  }
}

/** For what a person has asked for: says what went wrong, and gives whether it worked. `cwd`: a directory that was named. */
export async function attempt<T>(work: Promise<T>, cwd?: unknown): Promise<T | null> {
  if (page.now.complaint) page.patch({ complaint: null });
  try {
    return await work;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    refusedBy(problem);
    if (page.now.dialog) page.patch({ complaint: complained(problem, cwd) });
    else notify(problem.message, problem.hint, "problem", problem.code);
    return null;
  }
}

function complained({ code, message, hint }: Problem, cwd: unknown): Complaint {
  const named = typeof cwd === "string" && (code === "forbidden" || message.includes(cwd));
  return { text: message, hint, code, field: named ? "cwd" : null };
}
