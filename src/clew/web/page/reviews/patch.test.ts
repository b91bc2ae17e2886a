// Diffs as git words them, and where findings stand on them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { movedTo, onLines, onRound, origins, placed } from "./findings.ts";
import { hunksOf, patchesOf, shortened, unquoted } from "./patch.ts";
import type { Finding, Review, Round } from "./wire.ts";

const DIFF = `diff --git a/sp ace.txt b/sp ace.txt
index 422c2b7..0f7bc76 100644
--- a/sp ace.txt\t
+++ b/sp ace.txt\t
@@ -1,3 +1,3 @@ def here():
 a
-b
+c
 d
\\ No newline at end of file
@@ -10 +10,2 @@
 x
+y
diff --git "a/t\\tab.txt" "b/t\\tab.txt"
new file mode 100644
--- /dev/null
+++ "b/t\\tab.txt"
@@ -0,0 +1 @@
+z
diff --git a/old.py b/new.py
similarity index 100%
rename from old.py
rename to new.py
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/logo.png b/logo.png
index 1..2 100644
Binary files a/logo.png and b/logo.png differ
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
`;

test("a diff is cut into files, each by its name and by what happened to it", () => {
  assert.deepEqual(
    patchesOf(DIFF).map(({ path, oldPath, kind, binary, notes, lines }) => [path, oldPath, kind, binary, notes, lines]),
    [
      ["sp ace.txt", null, "changed", false, [], 9],
      ["t\tab.txt", null, "added", false, [], 2],
      ["new.py", "old.py", "renamed", false, [], 0],
      ["run.sh", null, "changed", false, ["mode 100644 → 100755"], 0],
      ["logo.png", null, "changed", true, [], 0],
      ["gone.py", null, "deleted", false, [], 2],
    ],
  );
  assert.deepEqual(patchesOf(""), []);
});

test("lines have their numbers on either side", () => {
  const [first, second] = hunksOf(patchesOf(DIFF)[0]?.body ?? "");
  assert.equal(first?.place, "def here():");
  assert.deepEqual(
    first?.lines.map(({ sign, old, now }) => `${sign}${old ?? ""}:${now ?? ""}`),
    [" 1:1", "-2:", "+:2", " 3:3", " :"],
  );
  assert.deepEqual(
    second?.lines.map(({ text, now }) => [text, now]),
    [
      ["x", 10],
      ["y", 11],
    ],
  );
});

test("what a file holds cannot begin another file or hunk", () => {
  const bad = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,0 +1,3 @@ x\r\u2028@@ -9 +9 @@\n+one\rdiff --git a/evil b/evil\n+\u2028@@ -7 +7 @@\n+three\n";
  const patches = patchesOf(bad);
  assert.equal(patches.length, 1);
  const hunks = hunksOf(patches[0]?.body ?? "");
  assert.deepEqual(
    hunks.map((hunk) => hunk.lines.map((line) => line.now)),
    [[1, 2, 3]],
  );
});

test("a name in quotes is read byte by byte", () => {
  assert.equal(unquoted('"a/\\303\\274\\t\\"x\\\\"'), 'a/ü\t"x\\');
  assert.equal(unquoted("plain"), "plain");
});

test("a very long line is cut, and says by how much", () => {
  const [text, more] = shortened("x".repeat(5_000_000));
  assert.equal(text.length + more, 5_000_000);
  assert.ok(text.length < 3000);
  assert.deepEqual(shortened("a\r"), ["a", 0]);
});

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

test("a finding stands on its line, at its file's head, or above the diff", () => {
  const all = [finding("F1"), finding("F2", { line: null }), finding("F3", { file: null, line: null }), finding("F4", { file: "other.py" })];
  const { byPath, loose } = placed(review(all, [round(1)]), 1, [A], () => []);
  assert.deepEqual(
    byPath.get("a.py")?.map(({ finding: { id }, line }) => [id, line]),
    [
      ["F1", 2],
      ["F2", null],
    ],
  );
  assert.deepEqual(
    loose.map((each) => each.finding.id),
    ["F3", "F4"],
  );
  const { atHead, byLine } = onLines(hunksOf(body("one")), byPath.get("a.py") ?? []);
  assert.equal(atHead.length, 2, "line 2 is not in this diff");
  assert.equal(byLine.size, 0);
});

test("a file may be named in full, from the top, or by its old name", () => {
  const patches = [{ path: "new.py", oldPath: "a.py" }];
  const found = ["/repo/new.py", "./new.py", "a.py"].map((file, at) => finding(`F${at}`, { file }));
  assert.equal(placed(review(found, [round(1)]), 1, patches, () => []).byPath.get("new.py")?.length, 3);
});

test("what was settled before a round is not on its diff; what it settled is", () => {
  const all = [
    finding("F1", { state: "fixed", state_round: 2 }),
    finding("F2"),
    finding("F3", { round: 3, severity: "critical" }),
  ];
  const of = (number: number): string => onRound(review(all, []), number).map(({ id }) => id).join();
  assert.deepEqual([of(1), of(2), of(3)], ["F1,F2", "F1,F2", "F3,F2"]);
  assert.deepEqual(origins(review(all, []), 3), [1]);
});

test("once its file has changed, a finding's line is looked for", () => {
  const before = hunksOf(body("a", "wrong", "b"));
  const after = hunksOf(body("new", "new", "a", "wrong", "b"));
  const lines = (number: number) => (number === 1 ? before : after);
  const of = (changed: string[]) => placed(review([finding("F1")], [round(1), round(2, changed)]), 2, [A], lines).byPath.get("a.py")?.[0]?.line;
  assert.deepEqual([of(["a.py"]), of([])], [4, 2]);
});

test("a line that could be one of several is nowhere", () => {
  const before = hunksOf(body("x", "same", "y"));
  assert.equal(movedTo(before, 2, hunksOf(body("same", "-", "-", "-", "-", "same"))), null);
  assert.equal(movedTo(before, 2, hunksOf(body("same", "-", "-", "-", "-", "x", "same"))), 7, "its neighbour tells");
  assert.equal(movedTo(before, 2, hunksOf(body("gone"))), null);
  assert.equal(movedTo(hunksOf(body("x", " ")), 2, before), null, "an empty line is anywhere");
});
