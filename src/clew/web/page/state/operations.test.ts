// Tests that the progress of an operation is the same however often the connection broke, and that its end has words.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Operation } from "../daemon/operations.ts";
import type { OperationEvent } from "../daemon/wire.ts";
import { applyEvent, endOf, followed, isOver, lost } from "./operations.ts";

const operation = (fields: Partial<Operation> = {}): Operation => ({
  id: "o1",
  kind: "export",
  subjects: ["maze"],
  status: "running",
  last_seq: 0,
  message: "",
  error: null,
  result: null,
  file: null,
  started_at: "2026-01-01T00:00:00Z",
  ended_at: null,
  ...fields,
});

const event = (seq: number, fields: Partial<OperationEvent> = {}): OperationEvent => ({
  seq,
  at: "2026-01-01T00:00:00Z",
  kind: "progress",
  message: "",
  done: null,
  total: null,
  data: null,
  ...fields,
});

test("events that come twice are applied once", () => {
  const events = [
    event(1, { message: "reading", done: 1, total: 3 }),
    event(2, { kind: "warning", message: "a file is missing" }),
    event(3, { message: "packing", done: 2 }),
    event(4, { kind: "ended" }),
  ];
  const once = events.reduce(applyEvent, followed(operation()));
  const twice = [...events.slice(0, 3), ...events].reduce(applyEvent, followed(operation()));
  assert.deepEqual(twice, once);
  assert.deepEqual(
    [once.seq, once.message, once.done, once.total, once.warnings],
    [4, "packing", 2, 3, ["a file is missing"]],
  );
});

test("an operation that the daemon no longer knows has failed, with what to do", () => {
  const ended = lost(operation());
  assert.equal(isOver(followed(ended)), true);
  assert.equal(ended.error?.hint, "Start it again.");
});

test("the end of an operation is a sentence", () => {
  assert.equal(endOf(operation({ status: "done" })), "The export of maze is done.");
  assert.equal(endOf(operation({ kind: "clean", subjects: [], status: "cancelled" })), "The clean-up was cancelled.");
  assert.equal(
    endOf(operation({ kind: "adopt", subjects: ["a", "b", "c", "d"], status: "done" })),
    "The adoption of a, b, c and others is done.",
  );
  const error = { code: "x", message: "No space left.", hint: null, secrets: [] };
  assert.equal(endOf(operation({ status: "failed", error })), "The export of maze failed: No space left.");
});
