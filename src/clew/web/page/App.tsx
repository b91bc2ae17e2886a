// The page as a whole: the sidebar, the open view, the dialogs, the connection banner and the notices.

import { useEffect } from "preact/hooks";
import { AgentsView, NoAgent } from "./agents/View.tsx";
import { CompareView } from "./branching/CompareView.tsx";
import { Conversation } from "./conversation/Conversation.tsx";
import { Dialogs } from "./Dialogs.tsx";
import { HooksView } from "./hooks/View.tsx";
import { JobView } from "./jobs/Detail.tsx";
import { JobList } from "./jobs/List.tsx";
import { onKeyDown } from "./keyboard.ts";
import { OperationsView } from "./operations/View.tsx";
import { PairView } from "./pairs/Detail.tsx";
import { PairList } from "./pairs/List.tsx";
import { ReviewView } from "./reviews/Detail.tsx";
import { ReviewList } from "./reviews/List.tsx";
import { SavingsView } from "./savings/View.tsx";
import { SessionsView } from "./sessions/View.tsx";
import { jobs, jobTitle } from "./state/jobs.ts";
import { dismiss, noAgentReady, page } from "./state/page.ts";
import { pairs } from "./state/pairs.ts";
import type { Route } from "./state/routes.ts";
import { useStore } from "./state/store.ts";
import { daemon } from "./state/sync.ts";
import { visible, visibleLine } from "./text/visible.ts";
import { FileChanges } from "./threads/FileChanges.tsx";
import { Sidebar } from "./threads/Sidebar.tsx";
import { ArchivesView } from "./transfer/Archives.tsx";
import { BackToList } from "./ui/BackToList.tsx";
import { ErrorBoundary } from "./ui/ErrorBoundary.tsx";
import { Close, Logo, Plus } from "./ui/icons.tsx";
import { useIsNarrow } from "./ui/viewport.ts";

export function App() {
  const at = useStore(page, (now) => now.route.at);
  const refused = useStore(page, (now) => now.connection === "refused");
  const route = useStore(page, (now) => now.route);
  useTitle(route);
  useEffect(() => {
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
  const isList = useIsNarrow() && at === "home"; // a phone shows either the sidebar or the open view
  if (refused) return <Refused />;
  return (
    <div class={isList ? "layout list" : "layout"}>
      <div class="side" role={isList ? "main" : undefined}>
        <ErrorBoundary>
          <Sidebar>{isList && <Home isList />}</Sidebar>
        </ErrorBoundary>
      </div>
      <Connection />
      {!isList && (
        <main>
          <ErrorBoundary key={at} resetKey={route}>
            {at === "home" && <Home />}
            {at === "not_found" && <NotFound />}
            {at === "thread" && <Conversation />}
            {at === "changes" && <FileChanges />}
            {at === "jobs" && <JobList />}
            {at === "job" && <JobView />}
            {at === "reviews" && <ReviewList />}
            {at === "review" && <ReviewView />}
            {at === "pairs" && <PairList />}
            {at === "pair" && <PairView />}
            {at === "compare" && <CompareView />}
            {at === "sessions" && <SessionsView />}
            {at === "archives" && <ArchivesView />}
            {at === "operations" && <OperationsView />}
            {at === "hooks" && <HooksView />}
            {at === "savings" && <SavingsView />}
            {at === "agents" && <AgentsView />}
          </ErrorBoundary>
        </main>
      )}
      <Notices />
      <ErrorBoundary>
        <Dialogs />
      </ErrorBoundary>
    </div>
  );
}

const TITLES: Record<Exclude<Route["at"], "thread" | "changes" | "job" | "review" | "pair">, string> = {
  home: "",
  not_found: "Not found",
  jobs: "Jobs",
  reviews: "Reviews",
  pairs: "Pairs",
  compare: "Comparison",
  sessions: "Sessions",
  archives: "Archives",
  operations: "Operations",
  hooks: "Hooks",
  savings: "Savings",
  agents: "Agents",
};

/** The name of what is open. The stores still contain the last thread and job when another view is open. */
function useOpenName(route: Route): string {
  const thread = useStore(daemon, (now) => now.conversation?.thread ?? null);
  const job = useStore(jobs, (now) => now.open);
  const pair = useStore(pairs, (now) => now.open);
  switch (route.at) {
    case "thread":
      return thread?.id === route.thread ? thread.name : "";
    case "changes":
      return thread?.id === route.thread ? `File changes · ${thread.name}` : "File changes";
    case "job":
      return (job?.id === route.job && jobTitle(job)) || "Job";
    case "pair":
      return pair?.id === route.pair || pair?.name === route.pair ? `Pair ${pair.name}` : "Pair";
    case "review":
      return `Review ${route.review}`;
    default:
      return TITLES[route.at];
  }
}

const MAX_TITLE_CHARS = 80;

/** The title of the tab: what is open, and how many threads wait for an answer. */
function useTitle(route: Route): void {
  const name = visibleLine(useOpenName(route), MAX_TITLE_CHARS);
  const waiting = useStore(daemon, (now) => now.threads.filter((thread) => thread.questions > 0).length);
  useEffect(() => {
    document.title = `${waiting > 0 ? `(${waiting}) ` : ""}${name ? `${name} · ` : ""}Clew`;
  }, [name, waiting]);
}

const Refused = () => (
  <main class="empty" data-testid="refused">
    <Logo size={40} />
    <h1>Open the link that clew serve printed</h1>
    <p>
      This page needs the token in that link once. The link looks like <code>http://127.0.0.1:7421/?token=…</code>, and{" "}
      <code>clew serve</code> prints it each time it starts.
    </p>
  </main>
);

function Connection() {
  const connection = useStore(page, (now) => now.connection);
  return (
    <div class="connection" data-testid="connection" data-state={connection} role="status">
      {connection === "lost" && (
        <>
          <span class="pulse" aria-hidden="true" /> Reconnecting… If clew serve has stopped, start it again. Nothing is lost.
        </>
      )}
    </div>
  );
}

/** `isList`: the threads are listed below, so there is no hint to open one. */
function Home({ isList = false }: { isList?: boolean }) {
  const agentsLoaded = useStore(page, (now) => now.agents !== null);
  const noAgent = useStore(page, noAgentReady);
  const listed = useStore(daemon, (now) => now.listed);
  const hasThreads = useStore(daemon, (now) => now.threads.length > 0);
  const content = noAgent ? (
    <NoAgent />
  ) : hasThreads ? (
    !isList && <Start title="Open a thread" />
  ) : (
    agentsLoaded && <Start title="Start your first thread" />
  );
  return (
    <div class="home" data-testid="home">
      <h1 class="hidden">{isList ? "Threads" : "Clew"}</h1>
      {listed && content && (
        <div class="empty">
          <Logo size={44} />
          {content}
        </div>
      )}
    </div>
  );
}

const Start = ({ title }: { title: string }) => (
  <>
    <h2>{title}</h2>
    <p>
      A thread is a conversation with a coding agent in one of your directories. Clew stores it, and resumes the agent's
      session when that is cheaper and still correct.
    </p>
    <button class="primary" type="button" onClick={() => page.patch({ dialog: { is: "new" } })}>
      <Plus /> New thread
    </button>
  </>
);

function NotFound() {
  useStore(page, (now) => now.route); // renders again for another unknown address
  return (
    <div class="view" data-testid="not-found">
      <header class="head only-narrow">
        <BackToList />
      </header>
      <div class="empty">
        <h1>Page not found</h1>
        <p>
          Clew has no page at <code>{location.hash}</code>. <a href="#/">Go to the start page</a>, or choose a thread from the list.
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

