// Tests of how numbers and durations are written.

import assert from "node:assert/strict";
import { test } from "node:test";
import { count, dollars, duration, times } from "./format.ts";

test("numbers are short", () => {
  assert.deepEqual([count(999), count(1000), count(48_210), count(1_500_000)], ["999", "1k", "48.2k", "1.5M"]);
  assert.deepEqual([dollars(0), dollars(0.00312), dollars(0.2), dollars(12.5)], ["$0", "$0.0031", "$0.200", "$12.50"]);
  assert.deepEqual([duration(900), duration(12_000), duration(61_000)], ["0.9 s", "12 s", "1 min 1 s"]);
  const even = [5_000, 59_700, 119_900, 1_800_000, 7_200_000, 7_260_000].map(duration);
  assert.deepEqual(even, ["5 s", "1 min", "2 min", "30 min", "2 h", "2 h 1 min"], "a unit that is zero is left out");
  assert.deepEqual([times(1), times(2)], ["once", "2 times"]);
});

