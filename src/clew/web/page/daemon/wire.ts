// What the daemon sends. The types are generated (openapi.ts, by `make wire`); here are the names that the page gives to
// parts of them, and the messages of the WebSocket, which the OpenAPI document does not describe.

import type { AgentHealth, Event, Finding, Job, Pair, PairThreads, Review, Run, Settings, Thread, ThreadView } from "./openapi.ts";

export type * from "./openapi.ts";

export type Agent = AgentHealth;
export type FindingState = Finding["state"];
export type JobStatus = Job["status"];
export type PairPart = keyof PairThreads;
export type PairStatus = Pair["status"];
export type Permissions = Settings["permissions"];
export type RunEvent = Event;
export type RunStatus = Run["status"];
export type Scope = Review["scope"];
export type Severity = Finding["severity"];
export type View = ThreadView;
export type Visibility = Settings["visibility"];

export type LiveMessage =
  | { type: "hello"; version: number; daemon: string }
  | { type: "changed"; version: number; threads: Thread[]; deleted: string[] }
  | { type: "events"; thread: string; run: string; events: RunEvent[] }
  | { type: "pong" };

/** Queued, and not about to start: it waits for a person, or for a usage limit to reset. */
export const isOnHold = (run: Run): boolean => run.status === "queued" && (run.held || run.not_before !== null);

export const isRunning = (status: RunStatus): boolean => status === "running" || status === "waiting";
export const isActive = (status: RunStatus): boolean => status === "queued" || isRunning(status);
