// Tests of the words for reasons.

import assert from "node:assert/strict";
import { test } from "node:test";
import { reasonText, resumedText } from "./labels.ts";

test("a reason that the page does not know is still shown", () => {
  assert.equal(reasonText("history_changed"), "history changed");
  assert.equal(reasonText("session_diverged"), "the session was continued outside Clew; that part is not in this thread");
  assert.equal(reasonText("some_later_reason"), "some later reason");
});

test("a resumed session says to which turn it was rewound, and why", () => {
  assert.equal(resumedText(null, null), "resumed");
  assert.equal(resumedText("history_changed", 4), "resumed, rewound to turn 4: history changed");
  assert.equal(resumedText("no_pin", null), "resumed in a copy: no session of this agent and model to resume");
});
