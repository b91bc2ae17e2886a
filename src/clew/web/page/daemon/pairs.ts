// Pairs: the calls, and the events of a pair, which the OpenAPI document does not describe.

import { call, part, query } from "./http.ts";
import type {
  NewPair,
  Pair,
  PairFork,
  PairList,
  PairPart,
  PairRename,
  PairReplayOperation,
  PairReplayRequest,
  PairResume,
  ResumedPair,
} from "./wire.ts";

/** What is said about a pair while it runs. `heard` passes on an event of a run. */
export type PairEvent =
  | { type: "asked"; round: number; of: number; part: PairPart; run_id: string; model: string | null; text: string }
  | { type: "heard"; round: number; part: PairPart; run_id: string; event: { kind: string } & Record<string, unknown> }
  | { type: "warned"; round: number; code: string; message: string }
  | { type: "opened" | "ordered" | "worked" | "ended" | "saved"; round: number }
  | { type: "pair" };

const pair = (id: string): string => `/api/pairs/${part(id)}`;

export const pairCalls = {
  list: (limit: number) => call<PairList>("GET", `/api/pairs${query({ limit })}`),
  get: (id: string) => call<Pair>("GET", pair(id)),
  events: (id: string, after: string) => `${pair(id)}/events${query({ after })}`,
  start: (body: NewPair) => call<Pair>("POST", "/api/pairs", body),
  stop: (id: string) => call<Pair>("POST", `${pair(id)}/stop`),
  resume: (id: string, body: PairResume) => call<ResumedPair>("POST", `${pair(id)}/resume`, body),
  rename: (id: string, name: string) => call<Pair>("POST", `${pair(id)}/rename`, { name } satisfies PairRename),
  replay: (id: string, body: PairReplayRequest) => call<PairReplayOperation>("POST", `${pair(id)}/replay`, body),
  fork: (id: string, round: number) => call<Pair>("POST", `${pair(id)}/fork`, { round } satisfies PairFork),
};
