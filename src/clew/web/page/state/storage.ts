// What this browser keeps over reloads and restarts of the daemon: drafts, what was seen, the theme, the page's key. A
// browser that keeps nothing (private mode, full disk) still shows the page.

function get(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function set(key: string, value: string | null): void {
  try {
    if (value === null || value === "") localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    // nothing is kept
  }
}

export const draft = {
  of: (thread: string): string => get(`clew.draft.${thread}`) ?? "",
  keep: (thread: string, text: string): void => set(`clew.draft.${thread}`, text),
};

/** Where the last thread was made, as long as the page is open: the next one is likely to be there too. */
let folder: string | null = null;
export const lastFolder = {
  or: (otherwise: string): string => folder ?? otherwise,
  set: (path: string): void => void (folder = path),
};

/** The half of what opens the daemon that stays with this origin: a browser sends the cookie to other ports as well. The
 * link hands it over behind the #, from where it is taken away at once. */
let heldKey = "";
export const pageKey = {
  get: (): string => heldKey || (heldKey = get("clew.key") ?? ""),
  take(): void {
    const given = /^#key=([0-9a-f]{64})$/.exec(location.hash)?.[1];
    if (!given) return;
    heldKey = given;
    set("clew.key", given);
    history.replaceState(null, "", location.pathname);
  },
};

export type Theme = "auto" | "light" | "dark";

export const theme = {
  get(): Theme {
    const kept = get("clew.theme");
    return kept === "light" || kept === "dark" ? kept : "auto";
  },
  set(value: Theme): void {
    set("clew.theme", value === "auto" ? null : value);
    theme.apply();
  },
  apply(): void {
    document.documentElement.dataset.theme = theme.get();
  },
};

/** When each thread was last looked at. Threads older than the first visit count as read. */
export const seen = {
  at(thread: string): string {
    let since = get("clew.seen");
    if (!since) {
      since = new Date().toISOString();
      set("clew.seen", since);
    }
    return get(`clew.seen.${thread}`) ?? since;
  },
  mark: (thread: string, at: string): void => set(`clew.seen.${thread}`, at),
};

export const forget = (thread: string): void => {
  set(`clew.draft.${thread}`, null);
  set(`clew.seen.${thread}`, null);
};
