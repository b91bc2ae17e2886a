// Tests of the diffs that the daemon makes of proposed edits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { editOf } from "./proposed.ts";

test("hunks keep the signs of their lines, and a line that looks like a header is a line of the file", () => {
  const lines = ["@@ -1,2 +1,2 @@", " kept", "-@@ old", "+@@ new", "@@ -9,0 +10,1 @@", "+last"];
  const { hunks, note } = editOf({ path: "a", lines, note: "A new file.", omitted: 3 });
  assert.deepEqual(
    hunks.map((hunk) => hunk.map(({ sign, text }) => sign + text)),
    [[" kept", "-@@ old", "+@@ new"], ["+last"]],
  );
  assert.equal(note, "A new file. 3 more lines of the diff not shown.");
});
