// Operations: long calls that the daemon carries out, such as an export. docs/http.md describes them.

import { call, part, query, request } from "./http.ts";
import type { Operation as AnyOperation, OperationList } from "./wire.ts";

/** Every operation, whatever it results in: the answer to each call that starts one says what that is. */
export type Operation<R = unknown> = Omit<AnyOperation, "result"> & { result: R | null };

const operation = (id: string): string => `/api/operations/${part(id)}`;

export const operationCalls = {
  list: () => call<OperationList>("GET", "/api/operations"),
  get: (id: string) => call<AnyOperation>("GET", operation(id)),
  cancel: (id: string) => call<AnyOperation>("POST", `${operation(id)}/cancel`),
  events: (id: string, after: string) => `${operation(id)}/events${query({ after })}`,
  file: async (id: string): Promise<Blob> => (await request("GET", `${operation(id)}/file`)).blob(),
};
