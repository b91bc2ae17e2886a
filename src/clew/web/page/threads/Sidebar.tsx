// The sidebar: the list of threads with their states, the search, and the buttons that open the other views.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { http } from "../daemon/http.ts";
import type { Thread } from "../daemon/wire.ts";
import { hooks } from "../state/hooks.ts";
import { jobs, needsAttention } from "../state/jobs.ts";
import { isOver, operations } from "../state/operations.ts";
import { attempt, noAgentReady, page } from "../state/page.ts";
import { go, hashOf, type Route } from "../state/routes.ts";
import { seen, theme, type Theme } from "../state/storage.ts";
import { useStore } from "../state/store.ts";
import { daemon, dispatch } from "../state/sync.ts";
import { age, baseName, dateTime } from "../text/format.ts";
import { visible } from "../text/visible.ts";
import { useMinute } from "../ui/clock.ts";
import { Half, Logo, Moon, More, Plus, Question, Search, Sun } from "../ui/icons.tsx";
import { Menu, type MenuItem } from "../ui/Menu.tsx";

/** `children`: shown above the threads, when the sidebar fills the screen. */
export function Sidebar({ children }: { children: ComponentChildren }) {
  return (
    <nav class="sidebar" aria-label="Threads" data-testid="sidebar">
      <div class="brand">
        <Logo />
        <span>Clew</span>
        <span class="grow" />
        <ThemeAndHelp />
        <button
          class="quiet"
          type="button"
          data-testid="new-thread"
          title="New thread (n)"
          onClick={() => page.patch({ dialog: { is: "new" } })}
        >
          <Plus /> New
        </button>
        <Menu label="More ways to get threads" testid="sidebar-menu" items={WAYS}>
          <More />
        </Menu>
      </div>
      <SearchField />
      <div class="listed">
        {children}
        <Threads />
      </div>
      <Views />
    </nav>
  );
}

const WAYS: MenuItem[] = [
  { label: "Import a file…", testid: "menu-import", act: () => page.patch({ dialog: { is: "import" } }) },
  { label: "Pull from a remote…", testid: "menu-pull", act: () => page.patch({ dialog: { is: "pull" } }) },
  { label: "Adopt sessions of an agent", testid: "menu-sessions", act: () => go({ at: "sessions" }) },
  { label: "Archives", testid: "menu-archives", act: () => go({ at: "archives" }) },
];

const SEARCH_AFTER_MS = 180;

function SearchField() {
  const [text, setText] = useState("");
  useEffect(() => {
    const query = text.trim();
    if (!query) {
      dispatch({ type: "threads_searched", items: null });
      return undefined;
    }
    let wanted = true;
    const timer = setTimeout(() => {
      void attempt(http.threads(query)).then(
        (found) => found && wanted && dispatch({ type: "threads_searched", items: found.items }),
      );
    }, SEARCH_AFTER_MS);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [text]);
  return (
    <div class="search" role="search">
      <Search size={14} />
      <input
        id="search"
        type="search"
        placeholder="Search"
        aria-label="Search threads"
        data-testid="search"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation();
          setText("");
          event.currentTarget.blur();
        }}
      />
      <kbd aria-hidden="true">/</kbd>
    </div>
  );
}

function Threads() {
  const threads = useStore(daemon, (now) => now.found ?? now.threads);
  const searching = useStore(daemon, (now) => now.found !== null);
  const listed = useStore(daemon, (now) => now.listed);
  const total = useStore(daemon, (now) => now.total);
  const now = useMinute();
  if (threads.length === 0) {
    const text = searching ? "No threads found." : listed ? "No threads yet." : "";
    return <p class={searching ? "threads none" : "threads none no-threads"}>{text}</p>;
  }
  return (
    <ul class="threads" data-testid="threads">
      {threads.map((thread) => (
        <ThreadItem key={thread.id} thread={thread} now={now} />
      ))}
      {!searching && threads.length < total && (
        <li>
          <button class="quiet more" type="button" data-testid="more-threads" onClick={() => void loadMoreThreads()}>
            Show more
          </button>
        </li>
      )}
    </ul>
  );
}

const MAX_THREADS = 500; // the daemon lists no more at once

async function loadMoreThreads(): Promise<void> {
  const found = await attempt(http.threads("", 0, Math.min(MAX_THREADS, daemon.now.threads.length + 50)));
  if (found) dispatch({ type: "threads_added", items: found.items, total: found.total });
}

function ThreadItem({ thread, now }: { thread: Thread; now: number }) {
  const open = useStore(page, ({ route }) => "thread" in route && route.thread === thread.id);
  const ref = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (open) ref.current?.scrollIntoView({ block: "nearest" });
  }, [open]);
  const status = thread.questions > 0 ? "waiting" : (thread.live?.status ?? null);
  const unread = !open && !status && thread.updated_at > seen.at(thread.id);
  return (
    <li>
      <a
        ref={ref}
        class={`thread${unread ? " unread" : ""}`}
        href={hashOf({ at: "thread", thread: thread.id })}
        aria-current={open ? "page" : undefined}
        data-testid="thread-item"
        onClick={() => page.patch({ browsing: false })}
        data-state={status ?? (unread ? "unread" : "idle")}
      >
        <span class="thread-name">{thread.name}</span>
        <StateMark status={status} unread={unread} />
        <span class="thread-note">
          {thread.opened_at ? "open in a terminal" : thread.first_failure ? "first turn failed" : thread.agent} ·{" "}
          {visible(baseName(thread.cwd))}
        </span>
        <time title={dateTime(thread.updated_at)} dateTime={thread.updated_at}>
          {age(thread.updated_at, now)}
        </time>
      </a>
    </li>
  );
}

function StateMark({ status, unread }: { status: string | null; unread: boolean }) {
  if (status === "waiting") {
    return (
      <span class="state waiting" title="The agent has a question for you">
        <Question size={14} />
        <span class="hidden">waiting for you</span>
      </span>
    );
  }
  if (status) {
    return (
      <span class="state" title={status}>
        <span class="pulse" aria-hidden="true" />
        <span class="hidden">{status}</span>
      </span>
    );
  }
  return unread ? (
    <span class="state" title="New since you last opened it">
      <span class="unread-dot" aria-hidden="true" />
      <span class="hidden">unread</span>
    </span>
  ) : (
    <span class="state" />
  );
}

const NEXT_THEME: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };

function ThemeAndHelp() {
  const [chosen, setChosen] = useState(theme.get());
  const change = (): void => {
    theme.set(NEXT_THEME[chosen]);
    setChosen(NEXT_THEME[chosen]);
  };
  const Icon = chosen === "auto" ? Half : chosen === "light" ? Sun : Moon;
  return (
    <>
      <button
        class="quiet"
        type="button"
        data-testid="theme"
        aria-label={`Theme: ${chosen}`}
        title={`Theme: ${chosen}`}
        onClick={change}
      >
        <Icon />
      </button>
      <button
        class="quiet"
        type="button"
        aria-label="Keyboard shortcuts"
        title="Keyboard shortcuts (?)"
        onClick={() => page.patch({ dialog: { is: "help" } })}
      >
        <Question />
      </button>
    </>
  );
}

function Views() {
  const noAgent = useStore(page, noAgentReady);
  const hasHooks = useStore(hooks, (now) => now.settings?.is_used ?? false);
  const needAttention = useStore(jobs, (now) => now.items.filter(needsAttention).length);
  const running = useStore(operations, (now) => Object.values(now).filter((each) => !isOver(each)).length);
  return (
    <div class="views">
      {running > 0 && <ViewButton view="operations" shortcut="o" name="Operations" mark={running} />}
      <ViewButton view="jobs" detail="job" shortcut="b" name="Jobs" mark={needAttention || null} />
      <ViewButton view="reviews" detail="review" shortcut="r" name="Reviews" />
      <ViewButton view="pairs" detail="pair" shortcut="p" name="Pairs" />
      {hasHooks && <ViewButton view="hooks" shortcut="h" name="Hooks" />}
      <ViewButton view="savings" shortcut="s" name="Savings" />
      <ViewButton view="agents" shortcut="a" name="Agents" mark={noAgent ? "!" : null} />
    </div>
  );
}

interface ViewButtonProps {
  view: "jobs" | "reviews" | "pairs" | "hooks" | "savings" | "agents" | "operations";
  detail?: Route["at"]; // the view of a single one of them
  shortcut: string;
  name: string;
  mark?: string | number | null; // what needs attention there
}

function ViewButton({ view, detail, shortcut, name, mark = null }: ViewButtonProps) {
  const at = useStore(page, (now) => now.route.at);
  return (
    <button
      class="quiet"
      type="button"
      data-testid={`${view}-open`}
      aria-current={at === view || at === detail ? "page" : undefined}
      title={`${name} (${shortcut})`}
      onClick={() => go({ at: view })}
    >
      {name} {mark !== null && <span class="attention">{mark}</span>}
    </button>
  );
}
