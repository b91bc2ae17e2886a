// Tests of the words for reasons.

import assert from "node:assert/strict";
import { test } from "node:test";
import { reasonText } from "./labels.ts";

test("a reason that the page does not know is still shown", () => {
  assert.equal(reasonText("history_changed"), "history changed");
  assert.equal(reasonText("session_diverged"), "the session was continued outside Clew; that part is not in this thread");
  assert.equal(reasonText("some_later_reason"), "some later reason");
});
