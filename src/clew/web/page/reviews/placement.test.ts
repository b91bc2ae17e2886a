// Tests of where findings are placed on a diff.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Finding, Review, Round } from "../daemon/wire.ts";
import { hunksOf } from "./patch.ts";
import { findingsOfRound, findMovedLine, placeFindings, roundsToCompare, splitByLine } from "./placement.ts";

const finding = (id: string, more: Partial<Finding> = {}): Finding => ({
  id,
  severity: "high",
  file: "a.py",
  line: 2,
  title: id,
  detail: "",
  suggestion: "",
  round: 1,
  state: "open",
  state_round: 1,
  note: "",
  ...more,
});

const round = (number: number, changed: string[] = []): Round => ({ round: number, changed_since: changed }) as unknown as Round;
const review = (findings: Finding[], rounds: Round[]): Review => ({ cwd: "/repo", findings, rounds }) as unknown as Review;
const A = { path: "a.py", oldPath: null };
const body = (...lines: string[]): string => `@@ -0,0 +1,${lines.length} @@\n${lines.map((line) => `+${line}`).join("\n")}\n`;

test("a finding is placed at its line, at the top of its file, or above the diff", () => {
  const all = [finding("F1"), finding("F2", { line: null }), finding("F3", { file: null, line: null }), finding("F4", { file: "other.py" })];
  const { byPath, unplaced } = placeFindings(review(all, [round(1)]), 1, [A], () => []);
  assert.deepEqual(
    byPath.get("a.py")?.map(({ finding: { id }, line }) => [id, line]),
    [
      ["F1", 2],
      ["F2", null],
    ],
  );
  assert.deepEqual(
    unplaced.map((each) => each.finding.id),
    ["F3", "F4"],
  );
  const { atTop, byLine } = splitByLine(hunksOf(body("one")), byPath.get("a.py") ?? []);
  assert.equal(atTop.length, 2, "line 2 is not in this diff");
  assert.equal(byLine.size, 0);
});

test("a file may be named by its absolute path, its relative path, or its old name", () => {
  const patches = [{ path: "new.py", oldPath: "a.py" }];
  const found = ["/repo/new.py", "./new.py", "a.py"].map((file, at) => finding(`F${at}`, { file }));
  assert.equal(placeFindings(review(found, [round(1)]), 1, patches, () => []).byPath.get("new.py")?.length, 3);
});

test("a finding settled before a round is not on its diff; one settled in it is", () => {
  const all = [
    finding("F1", { state: "fixed", state_round: 2 }),
    finding("F2"),
    finding("F3", { round: 3, severity: "critical" }),
  ];
  const of = (number: number): string => findingsOfRound(review(all, []), number).map(({ id }) => id).join();
  assert.deepEqual([of(1), of(2), of(3)], ["F1,F2", "F1,F2", "F3,F2"]);
  assert.deepEqual(roundsToCompare(review(all, []), 3), [1]);
});

test("when the file has changed, a finding's line is searched for", () => {
  const before = hunksOf(body("a", "wrong", "b"));
  const after = hunksOf(body("new", "new", "a", "wrong", "b"));
  const lines = (number: number) => (number === 1 ? before : after);
  const of = (changed: string[]) => placeFindings(review([finding("F1")], [round(1), round(2, changed)]), 2, [A], lines).byPath.get("a.py")?.[0]?.line;
  assert.deepEqual([of(["a.py"]), of([])], [4, 2]);
});

test("an ambiguous line has no place", () => {
  const before = hunksOf(body("x", "same", "y"));
  assert.equal(findMovedLine(before, 2, hunksOf(body("same", "-", "-", "-", "-", "same"))), null);
  assert.equal(findMovedLine(before, 2, hunksOf(body("same", "-", "-", "-", "-", "x", "same"))), 7, "the line before it decides");
  assert.equal(findMovedLine(before, 2, hunksOf(body("gone"))), null);
  assert.equal(findMovedLine(hunksOf(body("x", " ")), 2, before), null, "an empty line could be anywhere");
});
