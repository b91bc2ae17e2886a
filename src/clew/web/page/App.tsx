// The page as a whole: the list, what is open, the dialogs, the quiet banner, and the keys.
//
// Hooks for tests (data-testid), kept stable:
//   the list      sidebar, to-list, search, threads, thread-item (data-state), more-threads, new-thread, savings-open,
//                 agents-open, theme
//   a thread      thread-name, origin, rename, thread-settings, delete, changes-open, timeline, earlier
//   turns         turn-user, turn-assistant (data-turn), edit-turn, retry-turn, truncate-turn, fork-turn, copy-turn,
//                 turn-editor, save-turn, save-and-retry, consequence, confirm-change, badge, tool, todo-card, doing, ending, run-error,
//                 go-on, ask-again, retry-run, ask-again-here, prompt-back
//   questions     question-form, question-answer, permission-form, allow, deny, deny-with-words, deny-words, given
//   queue         queued-item (data-state), queued-edit, queued-editor, queued-save, queued-remove, queued-now
//   composer      composer, send, stop, fresh-toggle, agent-picker, model-picker, session-line, context-pill, permission-pill,
//                 cannot-ask
//   dialogs       new-thread-dialog, settings-dialog, rename-dialog, delete-dialog, help-dialog, thread-form, folder,
//                 thread-name-field, first-message, form-agent, make-thread, save-settings, rename-field, confirm-delete,
//                 folder-problem, dialog-problem
//   jobs          jobs-open, jobs-view, jobs, job-item (data-state), workers, no-worker, new-job, job-view, job-status, job-cancel,
//                 job-error, job-conflicts, job-waits, job-resume, job-fresh, job-restore, job-keep, job-result, new-job-dialog,
//                 job-form, job-prompt, job-checkpoint, job-key, submit-job, job-markers
//   reviews       reviews-open, reviews-view, reviews, review-item (data-state), new-review, review-view, review-status, export,
//                 round (data-round), round-badge, round-error, finding (data-state), state-filter, patch, patch-file,
//                 finding-card (data-finding, data-state), next-message, next-round, round-stop, new-review-dialog,
//                 review-form, review-base, review-paths, review-focus, start-review, word-by-word
//   hooks         hooks-open, hooks-view, hook-counts, hook-hint, hook-sessions, hook-session (data-state), hook-reset, reset-dialog,
//                 confirm-reset, hook-events, hook-event (data-state)
//   views         savings-view, agents-view, agent, look-again, changes-view, home, nowhere
//   the page      connection (data-state), notice, broken

import { useEffect } from "preact/hooks";
import { goingRun, stop } from "./actions.ts";
import { Agents, NoAgent } from "./Agents.tsx";
import { daemon, dismiss, go, page, type Route } from "./sync.ts";
import { Changes } from "./Changes.tsx";
import { Conversation } from "./Conversation.tsx";
import { Dialogs } from "./Dialogs.tsx";
import { Guard } from "./Guard.tsx";
import { Hooks } from "./Hooks.tsx";
import { Close, Mark, Plus } from "./icons.tsx";
import { headline, jobs } from "./jobs.ts";
import { Jobs } from "./Jobs.tsx";
import { JobView } from "./JobView.tsx";
import { isNarrow, useNarrow } from "./narrow.ts";
import { Reviews } from "./Reviews.tsx";
import { ReviewView } from "./ReviewView.tsx";
import { Savings } from "./Savings.tsx";
import { Sidebar } from "./Sidebar.tsx";
import { useStore } from "./store.ts";
import { ToList } from "./ThreadHead.tsx";
import { visible, visibleLine } from "./visible.ts";

export function App() {
  const at = useStore(page, (now) => now.route.at);
  const refused = useStore(page, (now) => now.connection === "refused");
  const route = useStore(page, (now) => now.route);
  useTitle(route);
  useEffect(() => {
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  const isList = useNarrow() && at === "home"; // a phone shows the list, or what was opened from it
  if (refused) return <Refused />;
  return (
    <div class={isList ? "layout list" : "layout"}>
      <div class="side" role={isList ? "main" : undefined}>
        <Guard>
          <Sidebar>{isList && <Home isList />}</Sidebar>
        </Guard>
      </div>
      <Connection />
      {!isList && (
        <main>
          <Guard key={at} of={route}>
            {at === "home" && <Home />}
            {at === "nowhere" && <Nowhere />}
            {at === "thread" && <Conversation />}
            {at === "changes" && <Changes />}
            {at === "jobs" && <Jobs />}
            {at === "job" && <JobView />}
            {at === "reviews" && <Reviews />}
            {at === "review" && <ReviewView />}
            {at === "hooks" && <Hooks />}
            {at === "savings" && <Savings />}
            {at === "agents" && <Agents />}
          </Guard>
        </main>
      )}
      <Notices />
      <Guard>
        <Dialogs />
      </Guard>
    </div>
  );
}

const TITLES: Record<Exclude<Route["at"], "thread" | "changes" | "job" | "review">, string> = {
  home: "",
  nowhere: "Nothing here",
  jobs: "Jobs",
  reviews: "Reviews",
  hooks: "Hooks",
  savings: "Savings",
  agents: "Agents",
};

/** What is open, and not what was open before it: a thread or a job stays in its store when it is left. */
function useOpened(route: Route): string {
  const thread = useStore(daemon, (now) => now.conversation?.thread ?? null);
  const job = useStore(jobs, (now) => now.open);
  switch (route.at) {
    case "thread":
      return thread?.id === route.thread ? thread.name : "";
    case "changes":
      return thread?.id === route.thread ? `File changes · ${thread.name}` : "File changes";
    case "job":
      return (job?.id === route.job && headline(job)) || "Job";
    case "review":
      return `Review ${route.review}`;
    default:
      return TITLES[route.at];
  }
}

const TITLE_CHARS = 80;

/** The tab says what is open, and whether somebody is waited for. */
function useTitle(route: Route): void {
  const name = visibleLine(useOpened(route), TITLE_CHARS);
  const waiting = useStore(daemon, (now) => now.threads.filter((thread) => thread.questions > 0).length);
  useEffect(() => {
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${name ? `${name} · ` : ""}Clew`;
  }, [name, waiting]);
}

const Refused = () => (
  <main class="empty" data-testid="refused">
    <Mark size={40} />
    <h1>Open the link that clew serve printed</h1>
    <p>
      This page needs the token in that link, once. It looks like <code>http://127.0.0.1:7421/?token=…</code>, and{" "}
      <code>clew serve</code> prints it again each time it starts.
    </p>
  </main>
);

function Connection() {
  const connection = useStore(page, (now) => now.connection);
  return (
    <div class="connection" data-testid="connection" data-state={connection} role="status">
      {connection === "lost" && (
        <>
          <span class="pulse" aria-hidden="true" /> Reconnecting… If clew serve was ended, start it again: nothing is lost.
        </>
      )}
    </div>
  );
}

/** `isList`: the threads stand below, so that they need no words. */
function Home({ isList = false }: { isList?: boolean }) {
  const known = useStore(page, (now) => now.agents !== null);
  const ill = useStore(page, (now) => now.agents?.every((agent) => agent.problem) ?? false);
  const listed = useStore(daemon, (now) => now.listed);
  const any = useStore(daemon, (now) => now.threads.length > 0);
  const said = ill ? <NoAgent /> : any ? !isList && <Start words="Pick up a thread" /> : known && <Start words="Start your first thread" />;
  return (
    <div class="home" data-testid="home">
      <h1 class="hidden">{isList ? "Threads" : "Clew"}</h1>
      {listed && said && (
        <div class="empty">
          <Mark size={44} />
          {said}
        </div>
      )}
    </div>
  );
}

const Start = ({ words }: { words: string }) => (
  <>
    <h2>{words}</h2>
    <p>
      A thread is a conversation with a coding agent in one of your directories. Clew keeps it, and resumes the agent's
      session when that is cheaper and still true.
    </p>
    <button class="primary" type="button" onClick={() => page.patch({ dialog: { is: "new" } })}>
      <Plus /> New thread
    </button>
  </>
);

function Nowhere() {
  useStore(page, (now) => now.route); // another address that means nothing is told as well
  return (
    <div class="view" data-testid="nowhere">
      <header class="head only-narrow">
        <ToList />
      </header>
      <div class="empty">
        <h1>Nothing is at this address</h1>
        <p>
          <code>{location.hash}</code> is no page of Clew. <a href="#/">Go to the start</a>, or pick a thread from the list.
        </p>
      </div>
    </div>
  );
}

function Notices() {
  const notices = useStore(page, (now) => now.notices);
  return (
    <div class="notices" role="status" aria-live="polite">
      {notices.map((notice) => (
        <div key={notice.id} class={`notice ${notice.tone}`} data-testid="notice">
          <p>
            {visible(notice.text)}
            {notice.hint && <small>{visible(notice.hint)}</small>}
          </p>
          <button class="quiet" type="button" aria-label="Dismiss" onClick={() => dismiss(notice.id)}>
            <Close size={13} />
          </button>
        </div>
      ))}
    </div>
  );
}

const isField = (element: Element | null): boolean =>
  element instanceof HTMLElement && (element.matches("input, textarea, select") || element.isContentEditable);

function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || page.now.dialog) return;
  if (event.key === "Escape") {
    escape();
    return;
  }
  const active = document.activeElement;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && active instanceof HTMLElement) {
    active.closest("form")?.requestSubmit();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isField(active)) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

/** Closes what is open; with nothing open, stops the run; with none, leaves the field. */
function escape(): void {
  if (page.now.editing) page.patch({ editing: null });
  else {
    const run = page.now.route.at === "thread" ? goingRun() : null;
    if (run && run.status !== "queued") {
      if (!run.cancel_requested) void stop(run);
    } else if (document.activeElement instanceof HTMLElement) document.activeElement.blur(); // now j and k are keys again
  }
}

const focus = (selector: string): void => document.querySelector<HTMLElement>(selector)?.focus();

const KEYS: Record<string, () => void> = {
  "/": () => {
    const look = (): unknown => requestAnimationFrame(() => focus("#search"));
    if (!isNarrow() || page.now.route.at === "home") look();
    else {
      window.addEventListener("hashchange", look, { once: true });
      go({ at: "home" });
    }
  },
  n: () => page.patch({ dialog: { is: "new" } }),
  j: () => step(1),
  k: () => step(-1),
  c: () => focus(".composer textarea"),
  e: () => {
    const last = daemon.now.conversation?.turns.findLast((turn) => turn.role === "user");
    if (last && page.now.route.at === "thread") page.patch({ editing: last.id });
  },
  f: () => document.querySelector<HTMLElement>("[data-testid=fresh-toggle]")?.click(),
  d: () => document.querySelector<HTMLElement>("[data-testid=changes-open]")?.click(),
  b: () => go({ at: "jobs" }),
  r: () => go({ at: "reviews" }),
  h: () => go({ at: "hooks" }),
  s: () => go({ at: "savings" }),
  a: () => go({ at: "agents" }),
  "?": () => page.patch({ dialog: { is: "help" } }),
};

function step(by: number): void {
  const threads = daemon.now.found ?? daemon.now.threads;
  const { route } = page.now;
  const at = "thread" in route ? threads.findIndex((thread) => thread.id === route.thread) : -1;
  const next = threads[at < 0 ? 0 : Math.min(threads.length - 1, Math.max(0, at + by))];
  if (!next) return;
  page.patch({ browsing: true });
  go({ at: "thread", thread: next.id });
}
