// Tests of how a path is split while it is being typed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { splitPath } from "./FolderField.tsx";

test("a path that is being typed is split at its last slash", () => {
  assert.deepEqual(splitPath("/home/me/pro"), ["/home/me", "pro"]);
  assert.deepEqual(splitPath("/ho"), ["/", "ho"]);
});
