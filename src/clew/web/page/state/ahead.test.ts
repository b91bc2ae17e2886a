// Tests how often, and for which threads, the page has an agent started ahead.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { SessionPreview } from "../daemon/wire.ts";
import { canStartAhead, isDue } from "./ahead.ts";

test("for each thread at most once in 30 seconds", () => {
  assert.deepEqual(
    [0, 1, 29_999, 30_000, 30_001].map((now) => isDue("a", now)),
    [true, false, false, true, false],
  );
  assert.equal(isDue("b", 30_001), true);
});

test("only where the next turn resumes a session as it is, and at once", () => {
  const session = { resumes: true, copies: false, waits_for: null } as SessionPreview;
  assert.equal(canStartAhead(session), true);
  assert.equal(canStartAhead({ ...session, resumes: false }), false);
  assert.equal(canStartAhead({ ...session, copies: true }), false);
  assert.equal(canStartAhead({ ...session, waits_for: "a run" }), false);
});
