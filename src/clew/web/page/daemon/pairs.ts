// Pairs: what the daemon takes and returns.

import { call, part, query } from "./http.ts";
import type { Failure } from "./operations.ts";
import type { Permissions, Usage } from "./wire.ts";

export type PairPart = "instructor" | "worker";
export type PairStatus = "running" | "finished" | "out_of_rounds" | "stopped" | "interrupted";

export interface PairOrder {
  thinking: string;
  instruction: string;
  worker_model: string | null;
  should_continue: boolean;
  needs_correction: boolean;
}

export interface PairRound {
  round: number;
  message: string; // of a person to the instructor
  changed_files: string[];
  order: PairOrder | null;
  worker_model: string | null;
  result: string | null; // the report of the worker
  instructor_run: string | null;
  worker_run: string | null;
  started_at: string | null;
  ended_at: string | null;
}

export interface PairSummary {
  id: string;
  name: string;
  status: PairStatus;
  phase: "instructing" | "working" | "done";
  round: number;
  rounds_left: number;
  max_rounds: number;
  task: string;
  cwd: string;
  agent: string;
  instructor_model: string | null;
  worker_model: string | null;
  permissions: Permissions;
  thinking: boolean;
  threads: Record<PairPart, string>;
  usage: Usage;
  cost_usd: number;
  file: string | null;
  imported_from: string | null;
  imported_round: number | null; // in which it was when it was imported
  stop_requested: boolean;
  error: Failure | null;
  created_at: string;
  updated_at: string;
}

export interface Pair extends PairSummary {
  rounds: PairRound[];
}

/** What is said about a pair while it runs. `heard` passes on an event of a run. */
export type PairEvent =
  | { type: "asked"; round: number; of: number; part: PairPart; run_id: string; model: string | null; text: string }
  | { type: "heard"; round: number; part: PairPart; run_id: string; event: { kind: string } & Record<string, unknown> }
  | { type: "warned"; round: number; code: string; message: string }
  | { type: "opened" | "ordered" | "worked" | "ended" | "saved"; round: number }
  | { type: "pair" };

export interface NewPairRequest {
  task: string;
  cwd: string;
  name?: string;
  agent?: string;
  instructor_model?: string;
  worker_model?: string;
  rounds?: number;
  thinking?: boolean;
  permissions?: Permissions;
}

export interface ResumePairRequest {
  message?: string;
  rounds?: number;
}

const pair = (id: string): string => `/api/pairs/${part(id)}`;

export const pairCalls = {
  list: (limit: number) => call<{ items: PairSummary[]; total?: number }>("GET", `/api/pairs${query({ limit })}`),
  get: (id: string) => call<Pair>("GET", pair(id)),
  events: (id: string, after: string) => `${pair(id)}/events${query({ after })}`,
  start: (body: NewPairRequest) => call<Pair>("POST", "/api/pairs", { ...body }),
  stop: (id: string) => call<Pair>("POST", `${pair(id)}/stop`),
  resume: (id: string, body: ResumePairRequest) => call<Pair>("POST", `${pair(id)}/resume`, { ...body }),
  rename: (id: string, name: string) => call<Pair>("POST", `${pair(id)}/rename`, { name }),
  fork: (id: string, round: number) => call<{ name: string; pair?: string | null }>("POST", `${pair(id)}/fork`, { at_round: round }),
};
