// Tests of how tool calls are summarised and how their file edits become diffs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { diffLines, editsOf, lineCounts, mainArgument } from "./edits.ts";

const signs = (before: string, after: string): string =>
  diffLines(before, after)
    .map((line) => line.sign + line.text)
    .join("|");

test("a diff keeps common lines and marks changed ones", () => {
  assert.equal(signs("a\nb\nc", "a\nx\nc"), " a|-b|+x| c");
  assert.equal(signs("", "a\nb\n"), "+a|+b");
  assert.equal(signs("a", ""), "-a");
});

test("a diff shows three lines around a change, not the file", () => {
  const many = Array.from({ length: 50 }, (_, index) => `line ${index}`);
  const changed = many.with(25, "other");
  assert.equal(diffLines(many.join("\n"), changed.join("\n")).length, 8);
});

test("a diff of two huge texts terminates", () => {
  const lines = (word: string): string => Array.from({ length: 5000 }, (_, index) => `${word}${index}`).join("\n");
  assert.equal(diffLines(lines("a"), lines("b")).length, 10_000);
});

test("edits are recognised by the shape of the input, whatever the tool is called", () => {
  const change = editsOf({ file_path: "/a", old_string: "x", new_string: "y" });
  const write = editsOf({ file_path: "/b", content: "1\n2\n" });
  const many = editsOf({ file_path: "/c", edits: [{ old_string: "1", new_string: "2" }] });
  const files = editsOf({ changes: [{ path: "/d", kind: "add", diff: "@@ -0,0 +1 @@\n+new\n" }] });
  assert.deepEqual(
    [change, write, many, files].map((edits) => [edits[0]?.path, edits[0]?.kind, lineCounts(edits)]),
    [
      ["/a", "change", { added: 1, removed: 1 }],
      ["/b", "add", { added: 2, removed: 0 }],
      ["/c", "change", { added: 1, removed: 1 }],
      ["/d", "add", { added: 1, removed: 0 }],
    ],
  );
  assert.deepEqual(editsOf({ command: "ls" }), []);
});

test("a tool call is summarised in one line", () => {
  assert.equal(mainArgument({ command: "ls\n  -la", description: "list" }), "ls -la");
  assert.equal(mainArgument({ file_path: "/a/b" }), "/a/b");
  assert.equal(mainArgument({}), "");
});

test("a change that names no file is shown with the others", () => {
  const edits = editsOf({ changes: [{ path: "a.txt", content: "ok" }, { file: "/etc/passwd" }, "odd", null] });
  assert.equal(edits.length, 4);
  assert.match(JSON.stringify(edits[1]), /etc\/passwd/);
  assert.deepEqual(editsOf({ changes: [{ id: 1 }] }), []);
});

test("a diff line that looks like a header is still a line", () => {
  const [edit] = editsOf({ changes: [{ path: "a", diff: "--- a\n+++ b\n@@ -1 +1 @@\n--- old\n+++ evil()\n" }] });
  assert.deepEqual(edit?.hunks, [[{ sign: "-", text: "-- old" }, { sign: "+", text: "++ evil()" }]]);
});

test("an argument that is not text does not raise", () => {
  assert.equal(mainArgument({ command: [{ toString: 1 }, "x"] }), "x");
  assert.equal(mainArgument({ command: { a: 1 }, toString: 1 }), "");
});
