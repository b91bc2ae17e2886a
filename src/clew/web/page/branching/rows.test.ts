// Tests how a comparison is arranged.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { ComparedTurn, FileDifference, TurnDifference } from "../daemon/wire.ts";
import { hunks, partsOf, rows, summary } from "./rows.ts";

const said = (text: string): ComparedTurn => ({ id: text, role: "user", agent: null, model: null, text });
const turn = (step: TurnDifference["step"], text: string): TurnDifference => ({
  step,
  a: step === "only_b" ? null : said(text),
  b: step === "only_a" ? null : said(text),
});
const file = (step: FileDifference["step"]): FileDifference => ({ path: "a", step, a_edits: 1, b_edits: 1, diff: "" });
const A = { id: "a", name: "a" };
const B = { id: "b", name: "b" };

test("turns that are the same are folded together, and every turn is there in its order", () => {
  const turns = [turn("same", "1"), turn("same", "2"), turn("changed", "3"), turn("same", "4"), turn("only_b", "5")];
  const found = rows(turns);
  assert.deepEqual(found.map((row) => (row.kind === "same" ? row.turns.length : row.turn.step)), [2, "changed", 1, "only_b"]);
  assert.deepEqual(found.flatMap((row) => (row.kind === "same" ? row.turns : [row.turn])), turns);
});

test("two threads are one part, two pairs are two", () => {
  const part = { a: A, b: B, turns: [], files: [] };
  assert.deepEqual(partsOf({ same: true, ...part }).map(({ title }) => title), [""]);
  assert.deepEqual(partsOf({ same: true, instructor: part, worker: part }).map(({ title }) => title), ["Instructors", "Workers"]);
});

test("the summary counts what differs", () => {
  const part = { a: A, b: B, turns: [turn("same", "1"), turn("only_a", "2")], files: [file("changed"), file("same")] };
  assert.equal(summary(part), "1 turn the same · 1 turn different · 1 file different");
  assert.equal(summary({ ...part, turns: [turn("same", "1")], files: [file("same")] }), "no known difference");
});

test("a diff has its hunks, without the names of the files", () => {
  const found = hunks("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n@@ -9 +9 @@\n-nine\n");
  assert.deepEqual(found, [
    [
      { sign: "kept", text: " one" },
      { sign: "removed", text: "-two" },
      { sign: "added", text: "+2" },
    ],
    [{ sign: "removed", text: "-nine" }],
  ]);
  assert.deepEqual(hunks(""), []);
});
