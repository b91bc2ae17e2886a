// Pairs: what the daemon takes and returns.

import { call, part, query } from "./http.ts";
import type { NewPair, Pair, PairList, PairNote, PairResume, ResumedPair } from "./wire.ts";

export type { Order as PairOrder, Pair, PairRound } from "./wire.ts";

export type PairPart = "instructor" | "worker";
export type PairStatus = Pair["status"];

export type PairSummary = PairNote;

/** What is said about a pair while it runs. `heard` passes on an event of a run. */
export type PairEvent =
  | { type: "asked"; round: number; of: number; part: PairPart; run_id: string; model: string | null; text: string }
  | { type: "heard"; round: number; part: PairPart; run_id: string; event: { kind: string } & Record<string, unknown> }
  | { type: "warned"; round: number; code: string; message: string }
  | { type: "opened" | "ordered" | "worked" | "ended" | "saved"; round: number }
  | { type: "pair" };

/** The daemon takes null for what is left out. */
export type NewPairRequest = Pick<NewPair, "task" | "cwd"> & Partial<NewPair>;
export type ResumePairRequest = Partial<PairResume>;

const pair = (id: string): string => `/api/pairs/${part(id)}`;

export const pairCalls = {
  list: (limit: number) => call<PairList>("GET", `/api/pairs${query({ limit })}`),
  get: (id: string) => call<Pair>("GET", pair(id)),
  events: (id: string, after: string) => `${pair(id)}/events${query({ after })}`,
  start: (body: NewPairRequest) => call<Pair>("POST", "/api/pairs", { ...body }),
  stop: (id: string) => call<Pair>("POST", `${pair(id)}/stop`),
  resume: (id: string, body: ResumePairRequest) => call<ResumedPair>("POST", `${pair(id)}/resume`, { ...body }),
  rename: (id: string, name: string) => call<Pair>("POST", `${pair(id)}/rename`, { name }),
  fork: (id: string, round: number) => call<Pair>("POST", `${pair(id)}/fork`, { round }),
};
