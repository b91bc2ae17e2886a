// Tests what a running pair shows.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { PairEvent } from "../daemon/pairs.ts";
import { NO_PAIR_PROGRESS, withPairEvent } from "./pairProgress.ts";

const asked = (round: number, part: "instructor" | "worker", run_id: string): PairEvent => ({
  type: "asked",
  round,
  of: 3,
  part,
  run_id,
  model: "m",
  text: "",
});
const heard = (run_id: string, text: string): PairEvent => ({
  type: "heard",
  round: 1,
  part: "worker",
  run_id,
  event: { kind: "text_streamed", text },
});

test("the run of the part that is asked is shown, and nothing of the run before it", () => {
  const events: PairEvent[] = [
    asked(1, "instructor", "r1"),
    { type: "ordered", round: 1 },
    asked(1, "worker", "r2"),
    heard("r2", "so "),
    heard("r2", "far"),
  ];
  const now = events.reduce(withPairEvent, NO_PAIR_PROGRESS);
  assert.deepEqual([now.round, now.part, now.run, now.model], [1, "worker", "r2", "m"]);
  const texts = now.progress.parts.map((part) => (part.kind === "text" ? part.text : ""));
  assert.equal(texts.join(""), "so far");
  const reported = withPairEvent(now, { type: "worked", round: 1 });
  assert.deepEqual([reported.part, reported.progress.parts.length], [null, 0]);
});

test("a stream that begins in the middle of a run shows that run", () => {
  const now = withPairEvent(NO_PAIR_PROGRESS, heard("r9", "here"));
  assert.deepEqual([now.run, now.part, now.progress.parts.length], ["r9", "worker", 1]);
});

test("a warning is shown once", () => {
  const warned: PairEvent = { type: "warned", round: 1, code: "x", message: "The file was not written." };
  assert.deepEqual([warned, warned].reduce(withPairEvent, NO_PAIR_PROGRESS).warnings, ["The file was not written."]);
});
