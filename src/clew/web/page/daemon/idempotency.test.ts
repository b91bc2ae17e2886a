// Tests that a request which creates something is carried out once, however often its response is lost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY_LIFETIME_MS, PendingKeys, randomKey, RETRY_DELAYS_MS, sendUntilAnswered } from "./idempotency.ts";

const responseOf = (status: number, retryAfter = false): Response =>
  new Response(null, { status, headers: retryAfter ? { "Retry-After": "1" } : {} });

test("the same request has the same key until it is answered", () => {
  let now = 0;
  let made = 0;
  const pendingKeys = new PendingKeys(() => `key-${(made += 1)}`, () => now);
  assert.equal(pendingKeys.keyFor("ask one"), "key-1");
  assert.equal(pendingKeys.keyFor("ask two"), "key-2");
  assert.equal(pendingKeys.keyFor("ask one"), "key-1");
  pendingKeys.answered("ask one");
  assert.equal(pendingKeys.keyFor("ask one"), "key-3", "sent after a response, it is a new request");
  now = KEY_LIFETIME_MS;
  assert.equal(pendingKeys.keyFor("ask one"), "key-4", "and so it is after the lifetime of the key");
});

test("a request is sent again while nobody answers, or while the first attempt is still in progress", async () => {
  const outcomes: (Response | Error)[] = [new TypeError("lost"), responseOf(409, true), responseOf(202)];
  const waited: number[] = [];
  const send = async (): Promise<Response> => {
    const next = outcomes.shift();
    if (next instanceof Response) return next;
    throw next;
  };
  const found = await sendUntilAnswered(send, async (ms) => void waited.push(ms));
  assert.deepEqual([found.status, outcomes.length, waited], [202, 0, RETRY_DELAYS_MS]);
  for (const status of [409, 422, 500]) {
    assert.equal((await sendUntilAnswered(async () => responseOf(status), async () => undefined)).status, status);
  }
  await assert.rejects(sendUntilAnswered(() => Promise.reject(new TypeError("gone")), async () => undefined), TypeError);
});

test("a key has the format that the daemon accepts", () => {
  assert.match(randomKey(), /^[0-9a-f]{32}$/);
});
