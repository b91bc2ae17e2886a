// Tests of how text from others is made visible.

import assert from "node:assert/strict";
import { test } from "node:test";
import { visible, visibleLine } from "./visible.ts";

test("invisible and control characters are shown by number; other text does not change", () => {
  assert.equal(visible("a\u{e0041}b\u00adc\u3164d"), "a[U+E0041]b[U+00AD]c[U+3164]d");
  assert.equal(visible("a\u202eb\u2066c\u200fd\u200be"), "a[U+202E]b[U+2066]c[U+200F]d[U+200B]e");
  assert.equal(visible("\u001b[31mred\u0007\u007f\u009b"), "[U+001B][31mred[U+0007][U+007F][U+009B]");
  assert.equal(visible("over\rwritten\r\nnext\tline"), "over[U+000D]written\r\nnext\tline");
  assert.equal(visible("שלום 👩‍💻 é ½"), "שלום 👩‍💻 é ½");
});

test("a long line is cut with an ellipsis", () => {
  assert.equal(visibleLine(`a\n\u202e ${"b".repeat(300)}`, 12), "a [U+202E] b…");
  assert.equal(visibleLine("short\n one"), "short one");
});
