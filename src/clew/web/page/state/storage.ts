// What this browser stores over reloads and restarts of the daemon: drafts, when each thread was seen, the theme, the
// address of the last remote, the page key. A browser that stores nothing (private mode, full disk) still shows the page.

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
    // this browser stores nothing
  }
}

/** The unsent text in a thread's composer, and the part of it that came from a turn that the person did not type. */
export const draft = {
  getKnown: (thread: string): string => get(`clew.known.${thread}`) ?? "",
  setKnown: (thread: string, text: string): void => set(`clew.known.${thread}`, text),
  get: (thread: string): string => get(`clew.draft.${thread}`) ?? "",
  set: (thread: string, text: string): void => set(`clew.draft.${thread}`, text),
};

/** The address of the remote that was used last. */
export const lastRemote = {
  get: (): string => get("clew.remote") ?? "",
  set: (url: string): void => set("clew.remote", url),
};

/** The directory of the thread that was made last, until the page is closed: the next one is likely to be there too. */
let folder: string | null = null;
export const lastFolder = {
  or: (fallback: string): string => folder ?? fallback,
  set: (path: string): void => void (folder = path),
};

/** The second half of the login, which only this origin can read: a browser sends the cookie to other ports as well. The
 * link carries it after the #, from where it is removed at once. */
let loadedKey = "";
export const pageKey = {
  get: (): string => loadedKey || (loadedKey = get("clew.key") ?? ""),
  takeFromAddress(): void {
    const given = /^#key=([0-9a-f]{64})$/.exec(location.hash)?.[1];
    if (!given) return;
    loadedKey = given;
    set("clew.key", given);
    history.replaceState(null, "", location.pathname);
  },
};

export type Theme = "auto" | "light" | "dark";

export const theme = {
  get(): Theme {
    const stored = get("clew.theme");
    return stored === "light" || stored === "dark" ? stored : "auto";
  },
  set(value: Theme): void {
    set("clew.theme", value === "auto" ? null : value);
    theme.apply();
  },
  apply(): void {
    document.documentElement.dataset.theme = theme.get();
  },
};

/** When each thread was last seen. Threads that are older than the first visit count as read. */
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

export const forgetThread = (thread: string): void => {
  set(`clew.draft.${thread}`, null);
  set(`clew.seen.${thread}`, null);
};
