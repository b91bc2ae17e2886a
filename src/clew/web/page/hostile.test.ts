// What agents may send, meaning well or not: all of it is shown, and nothing of it breaks the page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { editsOf, mainArgument } from "./edits.ts";
import { fieldsOf } from "./fields.ts";
import { askedOf, UNREADABLE } from "./forms.ts";
import { hasManyMarks, isHeavy, MOST_CELLS, MOST_DEPTH, MOST_ITEMS, MOST_MARKS } from "./heavy.ts";
import { blocks } from "./sanitize.ts";
import { visible, visibleLine } from "./visible.ts";

type Input = Record<string, unknown>;

const names = (input: Input): string[] => fieldsOf(input).map((field) => field.name);

const KINDS = ["_a", "**a ", "[", "[a](", "*", "<", "`a ``b ", "~~a ", "&", "![", "http://a ", "a@b ", "\\\\"];

for (const kind of KINDS) {
  test(`120 KB of ${kind} are text, and the paragraphs around them are not`, () => {
    const hostile = kind.repeat(120_000 / kind.length);
    const [before, made, after] = blocks(`*before*\n\nx ${hostile}\n\n*after*`);
    const kinds = (block = before) => (block?.token as { tokens?: { type: string }[] }).tokens?.map((token) => token.type);
    assert.deepEqual([kinds(before), kinds(made), kinds(after)], [["em"], ["text"], ["em"]]);
  });
}

test("what is nested too deep, or a list without an end, is not given to the parser", () => {
  const deep = [">".repeat(200), "- ".repeat(200), "> - ".repeat(50), `${" ".repeat(60)}- a`, `${"1. ".repeat(30)}a`];
  for (const line of deep) assert.ok(isHeavy(`a\n\n${line}\n`), line);
  assert.ok(isHeavy("1. a\n".repeat(MOST_ITEMS + 1)));
  assert.ok(isHeavy("a".repeat(1_000_001)));
  assert.throws(() => blocks("- a\n".repeat(MOST_ITEMS + 1)), RangeError);
});

const tableOf = (columns: number, rows: number, row = "|a|\n"): string =>
  `${"|a".repeat(columns)}|\n${"|-".repeat(columns)}|\n${row.repeat(rows)}`;

test("a table of many cells is not given to the parser, however few characters make them", () => {
  const wide = tableOf(1_000, 1_000, "a\n");
  const quoted = wide.replace(/^/gm, "> ");
  const narrowFirst = `|a|\n|-|\n# head\n${wide}`;
  const heavy = [wide, tableOf(20_000, 0), tableOf(2, MOST_CELLS / 2), quoted, narrowFirst, wide.replaceAll("\n", "\r")];
  for (const text of heavy) assert.ok(isHeavy(`before\n\n${text}\n\nafter`), text.slice(0, 20));
  assert.ok(isHeavy(`${tableOf(50, 60)}\n`.repeat(2)), "of all tables together");
  assert.throws(() => blocks(wide), RangeError);
  assert.ok(!isHeavy(tableOf(MOST_CELLS / 1_000, 999)), "all of them, and no more");
  assert.ok(!isHeavy(`a | b\n:- | -:\nc | d\n\n${"words\n".repeat(2 * MOST_CELLS)}`), "what follows a blank line is no row");
  assert.ok(!isHeavy(`head\n---\n${"words | words\n".repeat(2 * MOST_CELLS)}`), "a heading is no table");
});

test("what people and agents write is laid out", () => {
  const list = "- item with `code` and **words**\n".repeat(500);
  const table = `| a | b |\n| - | - |\n${"| `x` | y_z |\n".repeat(1_000)}`;
  const code = `\`\`\`c\n${"  int *p = &a[i]; /* __x__ */\n".repeat(2_000)}\`\`\`\n`;
  const nested = Array.from({ length: 8 }, (_, n) => `${"  ".repeat(n)}- a\n`).join("");
  const text = `${list}\n${table}\n${code}\n${"> quoted ".repeat(3)}\n\n${nested}`;
  assert.ok(!isHeavy(text));
  assert.deepEqual(blocks(text).map((block) => block.token.type), ["list", "table", "code", "blockquote", "list"]);
  assert.ok(!hasManyMarks("_".repeat(MOST_MARKS)) && hasManyMarks("_".repeat(MOST_MARKS + 1)));
  assert.ok(!isHeavy("    ".repeat(MOST_DEPTH) + "indented code"));
});

test("characters that act are shown, and what people write stays", () => {
  assert.equal(visible("a\u202eb\u2066c\u200fd\u200be"), "a[U+202E]b[U+2066]c[U+200F]d[U+200B]e");
  assert.equal(visible("\u001b[31mred\u0007\u007f\u009b"), "[U+001B][31mred[U+0007][U+007F][U+009B]");
  assert.equal(visible("over\rwritten\r\nnext\tline"), "over[U+000D]written\r\nnext\tline");
  assert.equal(visible("שלום 👩‍💻 é ½"), "שלום 👩‍💻 é ½");
});

test("a line is cut, and says so", () => {
  assert.equal(visibleLine(`a\n\u202e ${"b".repeat(300)}`, 12), "a [U+202E] b…");
  assert.equal(visibleLine("short\n one"), "short one");
});

test("every field of a call is shown, the one that says most first", () => {
  assert.deepEqual(names({ sql: "DROP TABLE users", description: "List the tables" }), ["description", "sql"]);
  assert.deepEqual(names({ dangerouslyDisableSandbox: true, command: "ls" }), ["command", "dangerouslyDisableSandbox"]);
  assert.deepEqual(names({ recursive: true, action: "delete", path: "a" }), ["path", "recursive", "action"]);
  assert.deepEqual(fieldsOf({ a: null, b: [1] }).map((field) => field.text), ["null", "[\n  1\n]"]);
  assert.deepEqual(names({}), []);
});

test("what is long says how long it is", () => {
  const [long] = fieldsOf({ command: `ls${"\n".repeat(99)}rm -rf ~` });
  assert.deepEqual([long?.size, long?.text.endsWith("rm -rf ~")], ["109 characters, 100 lines", true]);
  const many = fieldsOf(Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`f${n}`, n])));
  assert.deepEqual([many.length, many.at(-1)?.name, many.at(-1)?.text.includes('"f99": 99')], [41, "60 more fields", true]);
});

test("a diff stands for the fields that it shows all of, and for no other", () => {
  const edit = { file_path: "/a", old_string: "x", new_string: "y" };
  assert.deepEqual(names(edit), []);
  assert.deepEqual(names({ ...edit, replace_all: true, notebook_path: "/b" }), ["replace_all", "notebook_path"]);
  assert.deepEqual(names({ file_path: "/a", edits: [{ old_string: "1", new_string: "2" }] }), []);
  for (const odd of [{ old_string: "1", new_string: "2", replace_all: true }, null, 5, { old_string: 1, new_string: "2" }]) {
    assert.deepEqual(names({ file_path: "/a", edits: [odd] }), ["edits"]);
  }
  assert.deepEqual(names({ changes: [{ path: "a", content: "x" }] }), ["changes"]);
});

test("a change that names no file is shown among the others", () => {
  const edits = editsOf({ input: { changes: [{ path: "a.txt", content: "ok" }, { file: "/etc/passwd" }, "odd", null] } });
  assert.equal(edits.length, 4);
  assert.match(JSON.stringify(edits[1]), /etc\/passwd/);
  assert.deepEqual(editsOf({ input: { changes: [{ id: 1 }] } }), []);
});

test("a line of a diff that looks like a header is a line", () => {
  const [edit] = editsOf({ input: { changes: [{ path: "a", diff: "--- a\n+++ b\n@@ -1 +1 @@\n--- old\n+++ evil()\n" }] } });
  assert.deepEqual(edit?.hunks, [[{ sign: "-", text: "-- old" }, { sign: "+", text: "++ evil()" }]]);
});

test("an argument that cannot be a text is no reason to stop", () => {
  assert.equal(mainArgument({ command: [{ toString: 1 }, "x"] }), "x");
  assert.equal(mainArgument({ command: { a: 1 }, toString: 1 }), "");
});

test("a form that makes sense is read as it is", () => {
  const form = { questions: [{ question: "Which?", header: "H", multiSelect: true, options: [{ label: "a", description: "b" }] }] };
  const asked = [{ question: "Which?", header: "H", many: true, options: [{ label: "a", description: "b" }] }];
  assert.deepEqual(askedOf(form), { asked, whole: true });
});

test("of a malformed form what makes sense is asked, and the rest is shown as it came", () => {
  for (const questions of [undefined, null, 5, "x", {}, [], [null], ["x"], [{}], [{ question: " " }], [{ question: {} }]]) {
    const form = askedOf({ questions });
    assert.deepEqual([form.whole, form.asked.map((each) => each.question)], [false, [UNREADABLE]], JSON.stringify(questions));
  }
  const half = askedOf({ questions: [null, { question: "x", options: [null, "a", 5, { label: {} }] }] });
  assert.deepEqual([half.whole, half.asked[0]?.options.map((option) => option.label)], [false, ["a", "5"]]);
  assert.equal(askedOf({ questions: [{ question: "x", options: "nope" }] }).whole, false);
  const twice = askedOf({ questions: [{ question: "x", options: ["a", "a"] }, { question: "x" }] });
  assert.deepEqual([twice.whole, twice.asked.length, twice.asked[0]?.options.length], [false, 1, 1]);
  assert.equal(askedOf({ questions: [{ question: "x" }] }).whole, true);
});
