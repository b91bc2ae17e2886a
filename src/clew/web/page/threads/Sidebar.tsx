// The threads: searched, opened, and made; with what each is doing.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { attempt, daemon, go, hear, page } from "./sync.ts";
import { useMinute } from "./clock.ts";
import { http } from "./http.ts";
import { Half, Mark, Moon, Plus, Question, Search, Sun } from "./icons.tsx";
import { hooks } from "./hooks.ts";
import { jobs, needsYou } from "./jobs.ts";
import { seen, theme, type Theme } from "./keep.ts";
import { useStore } from "./store.ts";
import { visible } from "./visible.ts";
import type { Thread } from "./wire.ts";
import { age, lastName, moment } from "./words.ts";

/** `children`: what stands above the threads, where the list is a screen of its own. */
export function Sidebar({ children }: { children: ComponentChildren }) {
  return (
    <nav class="sidebar" aria-label="Threads" data-testid="sidebar">
      <div class="brand">
        <Mark />
        <span>Clew</span>
        <span class="grow" />
        <Looks />
        <button
          class="quiet"
          type="button"
          data-testid="new-thread"
          title="New thread (n)"
          onClick={() => page.patch({ dialog: { is: "new" } })}
        >
          <Plus /> New
        </button>
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

const SEARCH_AFTER_MS = 180;

function SearchField() {
  const [text, setText] = useState("");
  useEffect(() => {
    const query = text.trim();
    if (!query) {
      hear({ type: "threads_searched", query: "", items: null });
      return undefined;
    }
    let wanted = true;
    const timer = setTimeout(() => {
      void attempt(http.threads(query)).then(
        (found) => found && wanted && hear({ type: "threads_searched", query, items: found.items }),
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
    const words = searching ? "Nothing found." : listed ? "No threads yet." : "";
    return <p class={searching ? "threads none" : "threads none yet"}>{words}</p>;
  }
  return (
    <ul class="threads" data-testid="threads">
      {threads.map((thread) => (
        <Item key={thread.id} thread={thread} now={now} />
      ))}
      {!searching && threads.length < total && (
        <li>
          <button class="quiet more" type="button" data-testid="more-threads" onClick={() => void moreThreads()}>
            More
          </button>
        </li>
      )}
    </ul>
  );
}

const MOST_THREADS = 500; // that the daemon gives at once

async function moreThreads(): Promise<void> {
  const found = await attempt(http.threads("", 0, Math.min(MOST_THREADS, daemon.now.threads.length + 50)));
  if (found) hear({ type: "threads_added", items: found.items, total: found.total });
}

function Item({ thread, now }: { thread: Thread; now: number }) {
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
        href={`#/t/${encodeURIComponent(thread.id)}`}
        aria-current={open ? "page" : undefined}
        data-testid="thread-item"
        onClick={() => page.patch({ browsing: false })}
        data-state={status ?? (unread ? "unread" : "idle")}
      >
        <span class="thread-name">{thread.name}</span>
        <State status={status} unread={unread} />
        <span class="thread-note">
          {thread.agent} · {visible(lastName(thread.cwd))}
        </span>
        <time title={moment(thread.updated_at)} dateTime={thread.updated_at}>
          {age(thread.updated_at, now)}
        </time>
      </a>
    </li>
  );
}

function State({ status, unread }: { status: string | null; unread: boolean }) {
  if (status === "waiting") {
    return (
      <span class="state waiting" title="It asks you something">
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
    <span class="state" title="New since you last looked">
      <span class="fresh-dot" aria-hidden="true" />
      <span class="hidden">unread</span>
    </span>
  ) : (
    <span class="state" />
  );
}

const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };

function Looks() {
  const [look, setLook] = useState(theme.get());
  const change = (): void => {
    theme.set(NEXT[look]);
    setLook(NEXT[look]);
  };
  const Icon = look === "auto" ? Half : look === "light" ? Sun : Moon;
  return (
    <>
      <button class="quiet" type="button" data-testid="theme" aria-label={`Theme: ${look}`} title={`Theme: ${look}`} onClick={change}>
        <Icon />
      </button>
      <button class="quiet" type="button" aria-label="Keys" title="Keys (?)" onClick={() => page.patch({ dialog: { is: "help" } })}>
        <Question />
      </button>
    </>
  );
}

export function Views() {
  const at = useStore(page, (now) => now.route.at);
  const ill = useStore(page, (now) => now.agents?.every((agent) => agent.problem) ?? false);
  const hooked = useStore(hooks, (now) => now.settings?.is_used ?? false);
  const yours = useStore(jobs, (now) => now.items.filter(needsYou).length);
  return (
    <div class="views">
      <button
        class="quiet"
        type="button"
        data-testid="jobs-open"
        aria-current={at === "jobs" || at === "job" ? "page" : undefined}
        title="Jobs (b)"
        onClick={() => go({ at: "jobs" })}
      >
        Jobs {yours > 0 && <span class="ill">{yours}</span>}
      </button>
      <button
        class="quiet"
        type="button"
        data-testid="reviews-open"
        aria-current={at === "reviews" || at === "review" ? "page" : undefined}
        title="Reviews (r)"
        onClick={() => go({ at: "reviews" })}
      >
        Reviews
      </button>
      {hooked && (
        <button
          class="quiet"
          type="button"
          data-testid="hooks-open"
          aria-current={at === "hooks" ? "page" : undefined}
          title="Hooks (h)"
          onClick={() => go({ at: "hooks" })}
        >
          Hooks
        </button>
      )}
      <button
        class="quiet"
        type="button"
        data-testid="savings-open"
        aria-current={at === "savings" ? "page" : undefined}
        onClick={() => go({ at: "savings" })}
      >
        Savings
      </button>
      <button
        class="quiet"
        type="button"
        data-testid="agents-open"
        aria-current={at === "agents" ? "page" : undefined}
        onClick={() => go({ at: "agents" })}
      >
        Agents {ill && <span class="ill">!</span>}
      </button>
    </div>
  );
}
