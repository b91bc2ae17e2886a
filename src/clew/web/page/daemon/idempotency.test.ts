// A request that makes something is carried out once, however often its answer is lost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { KEPT_MS, randomKey, Unanswered, untilAnswered, WAITS_MS } from "./once.ts";

const answer = (status: number, retryAfter = false): Response =>
  new Response(null, { status, headers: retryAfter ? { "Retry-After": "1" } : {} });

test("the same request has the same key until it is answered", () => {
  let now = 0;
  let made = 0;
  const unanswered = new Unanswered(() => `key-${(made += 1)}`, () => now);
  assert.equal(unanswered.keyFor("ask one"), "key-1");
  assert.equal(unanswered.keyFor("ask two"), "key-2");
  assert.equal(unanswered.keyFor("ask one"), "key-1");
  unanswered.answered("ask one");
  assert.equal(unanswered.keyFor("ask one"), "key-3", "asked anew, it is meant anew");
  now = KEPT_MS;
  assert.equal(unanswered.keyFor("ask one"), "key-4", "after a while too");
});

test("it is sent again while nobody answers, or the first try is still being answered", async () => {
  const outcomes: (Response | Error)[] = [new TypeError("lost"), answer(409, true), answer(202)];
  const waited: number[] = [];
  const send = async (): Promise<Response> => {
    const next = outcomes.shift();
    if (next instanceof Response) return next;
    throw next;
  };
  const found = await untilAnswered(send, async (ms) => void waited.push(ms));
  assert.deepEqual([found.status, outcomes.length, waited], [202, 0, WAITS_MS]);
  for (const status of [409, 422, 500]) {
    assert.equal((await untilAnswered(async () => answer(status), async () => undefined)).status, status);
  }
  await assert.rejects(untilAnswered(() => Promise.reject(new TypeError("gone")), async () => undefined), TypeError);
});

test("a key is one that the daemon takes", () => {
  assert.match(randomKey(), /^[0-9a-f]{32}$/);
});
