// Tests of the limits beyond which Markdown is shown as plain text.

import assert from "node:assert/strict";
import { test } from "node:test";
import { exceedsLimits, hasTooManyMarks, MAX_CELLS, MAX_DEPTH, MAX_ITEMS, MAX_MARKS } from "./limits.ts";
import { blocks } from "./sanitize.ts";

const KINDS = ["_a", "**a ", "[", "[a](", "*", "<", "`a ``b ", "~~a ", "&", "![", "http://a ", "a@b ", "\\\\"];

for (const kind of KINDS) {
  test(`120 KB of ${kind} stay text, and the paragraphs around them are formatted`, () => {
    const hostile = kind.repeat(120_000 / kind.length);
    const [before, made, after] = blocks(`*before*\n\nx ${hostile}\n\n*after*`);
    const kinds = (block = before) => (block?.token as { tokens?: { type: string }[] }).tokens?.map((token) => token.type);
    assert.deepEqual([kinds(before), kinds(made), kinds(after)], [["em"], ["text"], ["em"]]);
  });
}

test("text that is nested too deep, or a list that is too long, is not parsed", () => {
  const deep = [">".repeat(200), "- ".repeat(200), "> - ".repeat(50), `${" ".repeat(60)}- a`, `${"1. ".repeat(30)}a`];
  for (const line of deep) assert.ok(exceedsLimits(`a\n\n${line}\n`), line);
  assert.ok(exceedsLimits("1. a\n".repeat(MAX_ITEMS + 1)));
  assert.ok(exceedsLimits("a".repeat(1_000_001)));
  assert.throws(() => blocks("- a\n".repeat(MAX_ITEMS + 1)), RangeError);
});

const tableOf = (columns: number, rows: number, row = "|a|\n"): string =>
  `${"|a".repeat(columns)}|\n${"|-".repeat(columns)}|\n${row.repeat(rows)}`;

test("a table with too many cells is not parsed, however few characters it takes", () => {
  const wide = tableOf(1_000, 1_000, "a\n");
  const quoted = wide.replace(/^/gm, "> ");
  const narrowFirst = `|a|\n|-|\n# head\n${wide}`;
  const heavy = [wide, tableOf(20_000, 0), tableOf(2, MAX_CELLS / 2), quoted, narrowFirst, wide.replaceAll("\n", "\r")];
  for (const text of heavy) assert.ok(exceedsLimits(`before\n\n${text}\n\nafter`), text.slice(0, 20));
  assert.ok(exceedsLimits(`${tableOf(50, 60)}\n`.repeat(2)), "all tables together");
  assert.throws(() => blocks(wide), RangeError);
  assert.ok(!exceedsLimits(tableOf(MAX_CELLS / 1_000, 999)), "exactly the limit");
  assert.ok(!exceedsLimits(`a | b\n:- | -:\nc | d\n\n${"words\n".repeat(2 * MAX_CELLS)}`), "lines after a blank line are not rows");
  assert.ok(!exceedsLimits(`head\n---\n${"words | words\n".repeat(2 * MAX_CELLS)}`), "a heading is not a table");
});

test("what people and agents usually write is parsed", () => {
  const list = "- item with `code` and **words**\n".repeat(500);
  const table = `| a | b |\n| - | - |\n${"| `x` | y_z |\n".repeat(1_000)}`;
  const code = `\`\`\`c\n${"  int *p = &a[i]; /* __x__ */\n".repeat(2_000)}\`\`\`\n`;
  const nested = Array.from({ length: 8 }, (_, n) => `${"  ".repeat(n)}- a\n`).join("");
  const text = `${list}\n${table}\n${code}\n${"> quoted ".repeat(3)}\n\n${nested}`;
  assert.ok(!exceedsLimits(text));
  assert.deepEqual(blocks(text).map((block) => block.token.type), ["list", "table", "code", "blockquote", "list"]);
  assert.ok(!hasTooManyMarks("_".repeat(MAX_MARKS)) && hasTooManyMarks("_".repeat(MAX_MARKS + 1)));
  assert.ok(!exceedsLimits("    ".repeat(MAX_DEPTH) + "indented code"));
});
