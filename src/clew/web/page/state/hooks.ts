// The hooks that the page knows: sessions by key, events that forges sent, and whether hooks are set up at all.

import { http, Problem } from "../daemon/http.ts";
import type { HookEvent, HookSession, HookSettings } from "../daemon/wire.ts";
import { refresher } from "./refresher.ts";
import { Store } from "./store.ts";

interface HooksState {
  settings: HookSettings | null; // null: not loaded yet
  sessions: readonly HookSession[];
  events: readonly HookEvent[]; // the newest first
  listed: boolean;
  error: Problem | null; // why they could not be loaded
}

export const hooks = new Store<HooksState>({ settings: null, sessions: [], events: [], listed: false, error: null });

const MAX_EVENTS = 200;
const PAUSE_MS = 500; // a running agent changes its thread many times a second

/** The sidebar has an entry for hooks only when they are set up. */
export async function refreshHookSettings(): Promise<void> {
  hooks.patch({ settings: await http.hookSettings() });
}

export const refreshHooks = refresher(async () => {
  try {
    const [sessions, events] = await Promise.all([http.hookSessions(), http.hookEvents(MAX_EVENTS)]);
    hooks.patch({ sessions: sessions.items, events: events.items, listed: true, error: null });
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.status === 401) throw problem;
    hooks.patch({ error: problem });
  }
}, PAUSE_MS);
