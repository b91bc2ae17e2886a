// Tests of how the runs of a thread are sorted for display.

import assert from "node:assert/strict";
import { test } from "node:test";
import { run, turn } from "../daemon/samples.ts";
import { sortRuns } from "./runs.ts";

test("one run is active, the others are queued", () => {
  const runs = [run("a"), run("b", { status: "queued" }), run("c", { status: "queued" })];
  const { current, next, queued } = sortRuns({ runs, turns: [] });
  assert.deepEqual([current?.id, next, queued.map((each) => each.id)], ["a", null, ["b", "c"]]);
});

test("without an active run, the first queued one is about to start", () => {
  const runs = [run("b", { status: "queued" }), run("c", { status: "queued" })];
  const { current, next, queued } = sortRuns({ runs, turns: [] });
  assert.deepEqual([current, next?.id, queued.map((each) => each.id)], [null, "b", ["c"]]);
});

test("a held prompt is queued, and is not about to start", () => {
  const runs = [run("b", { status: "queued", held: true }), run("a", { status: "cancelled", started_at: "2026" })];
  const { current, next, queued, unanswered } = sortRuns({ runs, turns: [] });
  assert.deepEqual([current, next, queued.map((each) => each.id), unanswered?.id], [null, null, ["b"], "a"]);
  const more = sortRuns({ runs: [run("c", { status: "queued" }), run("d", { status: "queued" }), ...runs], turns: [] });
  assert.deepEqual([more.next?.id, more.queued.map((each) => each.id)], ["c", ["d", "b"]]);
});

test("a removed prompt is shown neither as queued nor as stopped", () => {
  const runs = [run("a", { status: "queued", cancel_requested: true }), run("b", { status: "cancelled" })];
  assert.deepEqual(sortRuns({ runs, turns: [] }), { current: null, next: null, queued: [], unanswered: null });
});

test("a run whose answer is a turn is shown only as that turn", () => {
  const runs = [run("r", { status: "failed", started_at: "2026" })];
  assert.equal(sortRuns({ runs, turns: [] }).unanswered?.id, "r");
  assert.equal(sortRuns({ runs, turns: [turn(2, { run_id: "r" })] }).unanswered, null);
});

test("a run that waits for a usage limit is shown as queued, and the run it continues keeps its ending", () => {
  const limited = run("a", { status: "failed", started_at: "2026" });
  const waiting = run("b", { status: "queued", not_before: "2026-11-16T04:45:00.000Z" });
  const found = sortRuns({ runs: [waiting, limited], turns: [] });
  assert.deepEqual([found.next, found.queued.map((each) => each.id), found.unanswered?.id], [null, ["b"], "a"]);
});
