// Threads that are made from others, and the agents' own sessions: what the daemon takes and returns.

import { call, query, thread, type Body } from "./http.ts";
import type { Failure, Operation } from "./operations.ts";
import type { Usage } from "./wire.ts";

export interface NamedThread {
  id: string;
  name: string;
}

export interface ComparedTurn {
  id: string;
  role: "user" | "assistant";
  agent: string | null;
  model: string | null;
  text: string;
}

export interface TurnDifference {
  step: "same" | "changed" | "only_a" | "only_b";
  a: ComparedTurn | null;
  b: ComparedTurn | null;
}

export interface FileDifference {
  path: string;
  step: "same" | "changed" | "both" | "only_a" | "only_b";
  a_edits: number;
  b_edits: number;
  diff: string;
}

export interface ComparedPart {
  a: NamedThread;
  b: NamedThread;
  turns: TurnDifference[];
  files: FileDifference[];
}

export interface Comparison extends ComparedPart {
  same: boolean;
}

export interface PairComparison {
  same: boolean;
  instructor: ComparedPart;
  worker: ComparedPart;
}

export interface Merge {
  name: string;
  id: string;
  common_turns: number;
  own_turns: number[];
}

export interface ReplayAnswer {
  agent: string;
  model: string | null;
  text: string;
  partial: boolean;
  usage: Usage;
  cost_usd: number | null;
  seconds: number | null;
}

export interface ReplayTotals {
  answers: number;
  cut_off: number;
  usage: Usage;
  cost_usd: number | null;
  unpriced: number;
  seconds: number | null;
}

export interface Replay {
  name: string;
  id: string;
  of: NamedThread[];
  agent: string;
  model: string | null;
  prompts: number;
  rounds: { number: number; prompt: string; before: ReplayAnswer | null; after: ReplayAnswer | null }[];
  before: ReplayTotals;
  after: ReplayTotals;
  error: Failure | null;
}

export interface AgentSession {
  id: string;
  agent: string;
  cwd: string | null;
  first_words: string;
  changed_at: string;
  size_bytes: number;
  file: string;
  thread: string | null; // the name of the thread that owns it
}

export interface AdoptedSession extends AgentSession {
  adopted: boolean;
  turns: number;
  why: string | null;
}

export interface Adoption {
  items: AdoptedSession[];
  errors: Failure[];
}

export const branchingCalls = {
  compare: (a: string, b: string) => call<Comparison | PairComparison>("GET", `/api/compare${query({ a, b })}`),
  merge: (body: Body) => call<Merge>("POST", "/api/merge", body),
  replay: (id: string, body: Body) => call<Operation<Replay>>("POST", `${thread(id)}/replay`, body),
  sessions: (agent: string, limit: number) =>
    call<{ items: AgentSession[]; more: boolean }>("GET", `/api/sessions${query({ agent, limit })}`),
  adopt: (body: Body) => call<Operation<Adoption>>("POST", "/api/sessions/adopt", body),
};
