// Tests that every field of a tool call is shown.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldsOf } from "./fields.ts";

type Input = Record<string, unknown>;

const names = (input: Input): string[] => fieldsOf(input).map((field) => field.name);

test("every field of a call is shown, the most informative first", () => {
  assert.deepEqual(names({ sql: "DROP TABLE users", description: "List the tables" }), ["description", "sql"]);
  assert.deepEqual(names({ dangerouslyDisableSandbox: true, command: "ls" }), ["command", "dangerouslyDisableSandbox"]);
  assert.deepEqual(names({ recursive: true, action: "delete", path: "a" }), ["path", "recursive", "action"]);
  assert.deepEqual(fieldsOf({ a: null, b: [1] }).map((field) => field.text), ["null", "[\n  1\n]"]);
  assert.deepEqual(names({}), []);
});

test("a long field says how long it is", () => {
  const [long] = fieldsOf({ command: `ls${"\n".repeat(99)}rm -rf ~` });
  assert.deepEqual([long?.size, long?.text.endsWith("rm -rf ~")], ["109 characters, 100 lines", true]);
  const many = fieldsOf(Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`f${n}`, n])));
  assert.deepEqual([many.length, many.at(-1)?.name, many.at(-1)?.text.includes('"f99": 99')], [41, "60 more fields", true]);
});

test("only fields that a diff shows completely are left out of the list", () => {
  const edit = { file_path: "/a", old_string: "x", new_string: "y" };
  assert.deepEqual(names(edit), []);
  assert.deepEqual(names({ ...edit, replace_all: true, notebook_path: "/b" }), ["replace_all", "notebook_path"]);
  assert.deepEqual(names({ file_path: "/a", edits: [{ old_string: "1", new_string: "2" }] }), []);
  for (const odd of [{ old_string: "1", new_string: "2", replace_all: true }, null, 5, { old_string: 1, new_string: "2" }]) {
    assert.deepEqual(names({ file_path: "/a", edits: [odd] }), ["edits"]);
  }
  assert.deepEqual(names({ changes: [{ path: "a", content: "x" }] }), ["changes"]);
});
