// The agents' own sessions that the page knows: the last used ones.

import { branchingCalls } from "../daemon/branching.ts";
import { Problem } from "../daemon/http.ts";
import type { AgentSession } from "../daemon/wire.ts";
import { refresher } from "./refresher.ts";
import { Store } from "./store.ts";

interface SessionsState {
  items: readonly AgentSession[]; // the last used first
  more: boolean; // there are older ones
  listed: boolean;
  error: Problem | null; // why they could not be loaded
  agent: string; // whose sessions are listed; empty: of every agent
}

export const sessions = new Store<SessionsState>({
  items: [],
  more: false,
  listed: false,
  error: null,
  agent: "",
});

const PAGE_SIZE = 50;
const MAX_LISTED = 1_000; // the daemon lists no more at once
let limit = PAGE_SIZE;

export const refreshSessions = refresher(async () => {
  try {
    const { items, more } = await branchingCalls.sessions(sessions.now.agent, limit);
    sessions.patch({ items, more: more && limit < MAX_LISTED, listed: true, error: null });
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.status === 401) throw problem;
    sessions.patch({ error: problem });
  }
});

export function loadMoreSessions(): Promise<void> {
  limit = Math.min(MAX_LISTED, limit * 4);
  return refreshSessions();
}

export function chooseAgent(agent: string): void {
  sessions.patch({ agent });
  void refreshSessions().catch(() => undefined);
}
