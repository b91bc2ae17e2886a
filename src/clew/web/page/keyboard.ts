// The keyboard shortcuts of the page. Dialogs.tsx lists them for the user.

import { currentRun, stop } from "./state/actions.ts";
import { page } from "./state/page.ts";
import { go } from "./state/routes.ts";
import { daemon } from "./state/sync.ts";
import { isNarrow } from "./ui/viewport.ts";

const isField = (element: Element | null): boolean =>
  element instanceof HTMLElement && (element.matches("input, textarea, select") || element.isContentEditable);

export function onKeyDown(event: KeyboardEvent): void {
  if (event.defaultPrevented || page.now.dialog) return;
  if (event.key === "Escape") {
    onEscape();
    return;
  }
  const active = document.activeElement;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && active instanceof HTMLElement) {
    active.closest("form")?.requestSubmit();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isField(active)) return;
  const shortcut = SHORTCUTS[event.key];
  if (!shortcut) return;
  event.preventDefault();
  shortcut();
}

/** Closes the editor; without one, stops the run; without a run, leaves the field. */
function onEscape(): void {
  if (page.now.editing) {
    page.patch({ editing: null });
    return;
  }
  const run = page.now.route.at === "thread" ? currentRun() : null;
  if (run && run.status !== "queued") {
    if (!run.cancel_requested) void stop(run);
  } else if (document.activeElement instanceof HTMLElement) {
    document.activeElement.blur(); // so that j and k are shortcuts again
  }
}

const focus = (selector: string): void => document.querySelector<HTMLElement>(selector)?.focus();

const SHORTCUTS: Record<string, () => void> = {
  "/": () => {
    const search = (): unknown => requestAnimationFrame(() => focus("#search"));
    if (!isNarrow() || page.now.route.at === "home") search();
    else {
      window.addEventListener("hashchange", search, { once: true });
      go({ at: "home" });
    }
  },
  n: () => page.patch({ dialog: { is: "new" } }),
  j: () => openNeighbour(1),
  k: () => openNeighbour(-1),
  c: () => focus(".composer textarea"),
  e: () => {
    const last = daemon.now.conversation?.turns.findLast((turn) => turn.role === "user");
    if (last && page.now.route.at === "thread") page.patch({ editing: last.id });
  },
  f: () => document.querySelector<HTMLElement>("[data-testid=fresh-toggle]")?.click(),
  d: () => document.querySelector<HTMLElement>("[data-testid=changes-open]")?.click(),
  m: () => document.querySelector<HTMLElement>("[data-testid=thread-menu]")?.click(),
  w: () => document.querySelector<HTMLElement>("[data-testid=explain]")?.click(),
  i: () => page.patch({ dialog: { is: "import" } }),
  b: () => go({ at: "jobs" }),
  r: () => go({ at: "reviews" }),
  p: () => go({ at: "pairs" }),
  o: () => go({ at: "operations" }),
  h: () => go({ at: "hooks" }),
  s: () => go({ at: "savings" }),
  a: () => go({ at: "agents" }),
  "?": () => page.patch({ dialog: { is: "help" } }),
};

function openNeighbour(by: 1 | -1): void {
  const threads = daemon.now.found ?? daemon.now.threads;
  const { route } = page.now;
  const at = "thread" in route ? threads.findIndex((thread) => thread.id === route.thread) : -1;
  const next = threads[at < 0 ? 0 : Math.min(threads.length - 1, Math.max(0, at + by))];
  if (!next) return;
  page.patch({ browsing: true });
  go({ at: "thread", thread: next.id });
}
