// Keeps the page in step with the daemon: first the list of threads is loaded, then the WebSocket connects, then the view
// of the open thread is loaded, then its events follow. After a disconnect the same happens again, from where the page was.

import { http, Problem } from "../daemon/http.ts";
import { LiveSocket } from "../daemon/socket.ts";
import type { LiveMessage } from "../daemon/wire.ts";
import { startAhead } from "./ahead.ts";
import { hooks, refreshHooks, refreshHookSettings } from "./hooks.ts";
import { openJob, refreshJobs } from "./jobs.ts";
import { findOperations } from "./operations.ts";
import { checkRefused, clearUnreachable, inBackground, notify, page } from "./page.ts";
import { cursors, EMPTY_STATE, reduce, type DaemonState, type Update } from "./reducer.ts";
import { closePair, openPair, refreshPair, refreshPairs } from "./pairs.ts";
import { refresher } from "./refresher.ts";
import { openReview, refreshReview, refreshReviews } from "./reviews.ts";
import { routeOf } from "./routes.ts";
import { seen } from "./storage.ts";
import { Store } from "./store.ts";

export const daemon = new Store<DaemonState>(EMPTY_STATE);
export const dispatch = (update: Update): void => daemon.set(reduce(daemon.now, update));

let ownUpdates = 0;

/** For the daemon's response to an action of this page: a view that was requested before it may not contain it yet. */
export const dispatchOwn = (update: Update): void => {
  ownUpdates += 1;
  dispatch(update);
};

const socket = new LiveSocket({
  version: () => daemon.now.version,
  connected: (again) => void connected(again),
  disconnected: () => {
    if (page.now.connection !== "refused") page.patch({ connection: "lost" });
    void http.settings().catch(checkRefused); // a WebSocket does not report why it was refused
  },
  received,
});

export async function start(): Promise<void> {
  window.addEventListener("hashchange", openRoute);
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && socket.check());
  // Somebody who comes back from a terminal may have used the agent's own CLI there, of which the daemon says nothing.
  window.addEventListener("focus", () => void refreshView());
  openRoute();
  try {
    await refreshList();
  } catch (problem) {
    checkRefused(problem);
    page.patch({ connection: page.now.connection === "refused" ? "refused" : "lost" });
  }
  socket.connect();
  void refreshSettings();
  void inBackground(refreshJobs());
  void findOperations();
}

async function connected(again: boolean): Promise<void> {
  page.patch({ connection: "open" });
  clearUnreachable();
  if (again || !daemon.now.listed) {
    await inBackground(
      Promise.all([refreshList(), refreshView(), refreshJobs(), refreshShownReviews(), refreshShownHooks(), refreshShownPairs()]),
    );
    void refreshSettings();
  }
  watchOpenThread();
}

function received(message: LiveMessage): void {
  if (message.type === "changed") {
    dispatch(message);
    const kinds = new Set(message.threads.map((thread) => thread.kind));
    if (message.threads.some((thread) => thread.id === daemon.now.open)) void refreshView();
    if (kinds.has("job") || kinds.has("hook")) void inBackground(refreshJobs());
    if (kinds.has("hook")) void inBackground(refreshShownHooks());
    if (kinds.has("pair") || message.deleted.length > 0) void inBackground(refreshShownPairs());
    if (kinds.has("review") || message.deleted.length > 0) void inBackground(refreshShownReviews());
  } else if (message.type === "events") {
    dispatch({ type: "events_received", thread: message.thread, run: message.run, events: message.events });
  }
}

function watchOpenThread(): void {
  socket.watch(daemon.now.open, cursors(daemon.now));
}

async function refreshList(): Promise<void> {
  const { items, total, version } = await http.threads();
  dispatch({ type: "threads_listed", items, total, version });
}

/** Reviews are large, so only those that are shown are loaded again. */
async function refreshShownReviews(): Promise<void> {
  const { at } = page.now.route;
  if (at === "reviews") await refreshReviews();
  if (at === "review") await refreshReview();
}

async function refreshShownPairs(): Promise<void> {
  const { at } = page.now.route;
  if (at === "pairs") await refreshPairs();
  if (at === "pair") await refreshPair();
}

/** The settings too, while no hooks are known: the first session of a hook may be the first sign of any. */
async function refreshShownHooks(): Promise<void> {
  if (!hooks.now.settings?.is_used) await refreshHookSettings();
  if (page.now.route.at === "hooks") await refreshHooks();
}

export async function refreshSettings(): Promise<void> {
  await inBackground(
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
    const before = ownUpdates;
    const view = await http.view(id);
    if (ownUpdates !== before) {
      void refreshView();
      return;
    }
    dispatch({ type: "view_loaded", view });
    if (document.visibilityState === "visible") seen.mark(id, view.thread.updated_at);
    refreshSession();
  } catch (problem) {
    if (problem instanceof Problem && problem.status === 404) dispatch({ type: "thread_not_found", id });
    else if (problem instanceof Problem && problem.status >= 500) notify(problem.message, problem.hint, "problem", problem.code);
    else checkRefused(problem); // when nobody answered, the view is loaded after the reconnect
  }
}

export function refreshSession(): void {
  const id = daemon.now.open;
  if (!id) return;
  void inBackground(
    http.session(id).then((session) => {
      if (daemon.now.open !== id) return;
      const isOpened = page.now.session === null;
      page.patch({ session: { ...session, thread: id } });
      if (isOpened && isLookedAt(id)) startAhead(page.now.session);
    }),
  );
}

/** Whether somebody sees the thread, and does not only step past it with the keyboard. */
function isLookedAt(thread: string): boolean {
  const { route, browsing } = page.now;
  return "thread" in route && route.thread === thread && !browsing && document.visibilityState === "visible";
}

export async function loadEarlier(): Promise<void> {
  const now = daemon.now.conversation;
  const first = now?.turns[0];
  if (!now?.more || !first) return;
  const view = await http.view(now.thread.id, first.position);
  dispatch({ type: "earlier_loaded", thread: now.thread.id, view });
}

function openRoute(): void {
  const route = routeOf(location.hash);
  page.patch({ route, editing: null });
  if (route.at === "pair") void inBackground(openPair(route.pair));
  else closePair();
  if (route.at === "job") void inBackground(openJob(route.job).then((job) => job && openThread(job.thread_id)));
  else if (route.at === "review") {
    void inBackground(
      openReview(route.review).then((review) => review && isReviewShown(review.id) && openThread(review.thread_id)),
    );
  } else if ("thread" in route) openThread(route.thread);
}

const isReviewShown = (review: string): boolean =>
  page.now.route.at === "review" && page.now.route.review === review;

function openThread(thread: string): void {
  if (thread === daemon.now.open) return;
  dispatch({ type: "thread_opened", id: thread });
  page.patch({ session: null });
  void refreshView().then(() => {
    if (daemon.now.open === thread) watchOpenThread();
  });
}
