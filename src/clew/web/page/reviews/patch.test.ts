// Tests of how a git diff is read.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hunksOf, shortenLine, splitDiff, unquoted } from "./patch.ts";

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

test("a diff is split into files, each with its name and kind of change", () => {
  assert.deepEqual(
    splitDiff(DIFF).map(({ path, oldPath, kind, binary, notes, lines }) => [path, oldPath, kind, binary, notes, lines]),
    [
      ["sp ace.txt", null, "changed", false, [], 9],
      ["t\tab.txt", null, "added", false, [], 2],
      ["new.py", "old.py", "renamed", false, [], 0],
      ["run.sh", null, "changed", false, ["mode 100644 → 100755"], 0],
      ["logo.png", null, "changed", true, [], 0],
      ["gone.py", null, "deleted", false, [], 2],
    ],
  );
  assert.deepEqual(splitDiff(""), []);
});

test("lines have their numbers in the old and the new file", () => {
  const [first, second] = hunksOf(splitDiff(DIFF)[0]?.body ?? "");
  assert.equal(first?.context, "def here():");
  assert.deepEqual(
    first?.lines.map(({ sign, oldLine, newLine }) => `${sign}${oldLine ?? ""}:${newLine ?? ""}`),
    [" 1:1", "-2:", "+:2", " 3:3", " :"],
  );
  assert.deepEqual(
    second?.lines.map(({ text, newLine }) => [text, newLine]),
    [
      ["x", 10],
      ["y", 11],
    ],
  );
});

test("the content of a file cannot start another file or hunk", () => {
  const bad = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,0 +1,3 @@ x\r\u2028@@ -9 +9 @@\n+one\rdiff --git a/evil b/evil\n+\u2028@@ -7 +7 @@\n+three\n";
  const patches = splitDiff(bad);
  assert.equal(patches.length, 1);
  const hunks = hunksOf(patches[0]?.body ?? "");
  assert.deepEqual(
    hunks.map((hunk) => hunk.lines.map((line) => line.newLine)),
    [[1, 2, 3]],
  );
});

test("a quoted name is decoded byte by byte", () => {
  assert.equal(unquoted('"a/\\303\\274\\t\\"x\\\\"'), 'a/ü\t"x\\');
  assert.equal(unquoted("plain"), "plain");
});

test("a very long line is cut, with the number of characters left out", () => {
  const [text, more] = shortenLine("x".repeat(5_000_000));
  assert.equal(text.length + more, 5_000_000);
  assert.ok(text.length < 3000);
  assert.deepEqual(shortenLine("a\r"), ["a", 0]);
});
