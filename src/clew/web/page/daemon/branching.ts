// Threads that are made from others, and the agents' own sessions: the calls.

import { call, query, thread } from "./http.ts";
import type {
  AdoptOperation,
  AdoptRequest,
  AgentSessionList,
  Comparison,
  Merge,
  MergeRequest,
  PairComparison,
  PairMerge,
  ReplayOperation,
  ReplayRequest,
} from "./wire.ts";

export const branchingCalls = {
  compare: (a: string, b: string) => call<Comparison | PairComparison>("GET", `/api/compare${query({ a, b })}`),
  merge: (body: MergeRequest) => call<Merge | PairMerge>("POST", "/api/merge", body),
  replay: (id: string, body: ReplayRequest) => call<ReplayOperation>("POST", `${thread(id)}/replay`, body),
  sessions: (agent: string, limit: number) => call<AgentSessionList>("GET", `/api/sessions${query({ agent, limit })}`),
  adopt: (body: AdoptRequest) => call<AdoptOperation>("POST", "/api/sessions/adopt", body),
};
