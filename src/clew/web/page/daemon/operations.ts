// Operations: long calls that the daemon carries out, such as an export. docs/http.md describes them.

import { call, part, query, request } from "./http.ts";

export interface Failure {
  code: string;
  message: string;
  hint: string | null;
}

export interface FoundSecret {
  kind: string;
  where: string;
}

export interface Operation<R = unknown> {
  id: string;
  kind: string;
  subjects: string[];
  status: "running" | "done" | "failed" | "cancelled";
  last_seq: number;
  message: string;
  error: (Failure & { secrets: FoundSecret[] }) | null;
  result: R | null;
  file: { name: string; media_type: string; size_bytes: number; address: string } | null;
  started_at: string;
  ended_at: string | null;
}

export interface OperationEvent {
  seq: number;
  at: string;
  kind: "progress" | "warning" | "ended";
  message: string;
  done: number | null;
  total: number | null;
  data: Record<string, unknown> | null;
}

const operation = (id: string): string => `/api/operations/${part(id)}`;

export const operationCalls = {
  list: () => call<{ items: Operation[] }>("GET", "/api/operations"),
  get: (id: string) => call<Operation>("GET", operation(id)),
  cancel: (id: string) => call<Operation>("POST", `${operation(id)}/cancel`),
  events: (id: string, after: string) => `${operation(id)}/events${query({ after })}`,
  file: async (id: string): Promise<Blob> => (await request("GET", `${operation(id)}/file`)).blob(),
};
