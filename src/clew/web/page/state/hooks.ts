// The hooks as the page knows them: sessions by key, what forges told, and whether there is anything to show at all.

import { http, Problem } from "./http.ts";
import { refresher } from "./refresher.ts";
import { Store } from "./store.ts";
import type { HookEvent, HookSession, HookSettings } from "./wire.ts";

export interface Hooks {
  settings: HookSettings | null; // null: not asked yet
  sessions: readonly HookSession[];
  events: readonly HookEvent[]; // the newest first
  listed: boolean;
  trouble: Problem | null; // why they could not be had
}

export const hooks = new Store<Hooks>({ settings: null, sessions: [], events: [], listed: false, trouble: null });

const EVENTS = 200;
const EVERY_MS = 500; // at most: an agent that works says a lot

/** Whether there are hooks: the list at the left has a place for them only then. */
export async function refreshHookSettings(): Promise<void> {
  hooks.patch({ settings: await http.hookSettings() });
}

export const refreshHooks = refresher(async () => {
  try {
    const [sessions, events] = await Promise.all([http.hookSessions(), http.hookEvents(EVENTS)]);
    hooks.patch({ sessions: sessions.items, events: events.items, listed: true, trouble: null });
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.status === 401) throw problem;
    hooks.patch({ trouble: problem });
  }
}, EVERY_MS);
