// Tests of how question forms are read, well-formed or not.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readForm, UNREADABLE } from "./questions.ts";

test("a well-formed form is read unchanged", () => {
  const form = { questions: [{ question: "Which?", header: "H", multiSelect: true, options: [{ label: "a", description: "b" }] }] };
  const questions = [{ question: "Which?", header: "H", multiple: true, options: [{ label: "a", description: "b" }] }];
  assert.deepEqual(readForm(form), { questions, complete: true });
});

test("the readable part of a malformed form is asked, and the form is marked incomplete", () => {
  for (const questions of [undefined, null, 5, "x", {}, [], [null], ["x"], [{}], [{ question: " " }], [{ question: {} }]]) {
    const form = readForm({ questions });
    assert.deepEqual([form.complete, form.questions.map((each) => each.question)], [false, [UNREADABLE]], JSON.stringify(questions));
  }
  const half = readForm({ questions: [null, { question: "x", options: [null, "a", 5, { label: {} }] }] });
  assert.deepEqual([half.complete, half.questions[0]?.options.map((option) => option.label)], [false, ["a", "5"]]);
  assert.equal(readForm({ questions: [{ question: "x", options: "nope" }] }).complete, false);
  const twice = readForm({ questions: [{ question: "x", options: ["a", "a"] }, { question: "x" }] });
  assert.deepEqual([twice.complete, twice.questions.length, twice.questions[0]?.options.length], [false, 1, 1]);
  assert.equal(readForm({ questions: [{ question: "x" }] }).complete, true);
});
