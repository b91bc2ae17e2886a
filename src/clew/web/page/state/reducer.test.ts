// The reducer: nothing lost, nothing twice, nothing stale, whatever the order in which answers and events arrive.

import assert from "node:assert/strict";
import { test } from "node:test";
import toolStates from "../../../../tests/core/tool_states.json";
import { arranged } from "./arrangement.ts";
import { said } from "./progress.ts";
import { cursors, EMPTY, reduce, type Heard, type State } from "./state.ts";
import type { Run, RunEvent, Thread, Turn, View } from "./wire.ts";

const thread = (id: string, fields: Partial<Thread> = {}): Thread => ({
  id,
  name: id,
  cwd: "/project",
  agent: "claude",
  model: null,
  permissions: "ask",
  trust: "user",
  visibility: "shared",
  instructions: null,
  kind: "chat",
  origin: null,
  created_at: "2026-01-01T00:00:00.000Z",
  updated_at: "2026-01-01T00:00:00.000Z",
  version: 1,
  turns: 0,
  cost_usd: 0,
  live: null,
  questions: 0,
  last_text: "",
  ...fields,
});

const turn = (position: number, fields: Partial<Turn> = {}): Turn => ({
  id: `turn-${position}`,
  position,
  role: position % 2 ? "user" : "assistant",
  text: `text ${position}`,
  agent: null,
  model: null,
  partial: false,
  revision: 0,
  created_at: "2026-01-01T00:00:00.000Z",
  run_id: null,
  run: null,
  steps: 0,
  ...fields,
});

const run = (id: string, fields: Partial<Run> = {}): Run => ({
  id,
  thread_id: "t",
  status: "running",
  agent: "claude",
  model: null,
  prompt: "p",
  prompt_turn_id: null,
  answer_turn_id: null,
  session_id: null,
  session_resumed: null,
  reason: null,
  fallback: false,
  outcome: null,
  error: null,
  resets_at: null,
  stderr_tail: "",
  usage: { input_tokens: 0, output_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
  cost_usd: null,
  estimate_usd: null,
  prompt_chars: null,
  transcript_chars: null,
  question: null,
  held: false,
  not_before: null,
  cancel_requested: false,
  last_seq: 0,
  created_at: "",
  started_at: null,
  ended_at: null,
  ...fields,
});

const view = (turns: Turn[], fields: Partial<View> = {}): View => ({
  thread: thread("t"),
  turns,
  more: false,
  runs: [],
  questions: [],
  version: 1,
  ...fields,
});

const event = (seq: number, kind: string, body: Record<string, unknown> = {}): RunEvent => ({ seq, at: "", kind, body });
const piece = (seq: number, text: string): RunEvent => event(seq, "text_streamed", { text });
const came = (...events: RunEvent[]): Heard => ({ type: "events_came", thread: "t", run: "r", events });

const after = (...heard: Heard[]): State => heard.reduce(reduce, { ...EMPTY, open: "t" });
const words = (state: State): string => (state.progress.r ? said(state.progress.r) : "");
const ids = (state: State): string[] => (state.conversation?.turns ?? []).map((each) => each.id);

test("an event that is sent again counts once", () => {
  const state = after(came(piece(1, "a"), piece(2, "b")), came(piece(1, "a"), piece(2, "b"), piece(3, "c")));
  assert.equal(words(state), "abc");
});

test("an event of a thread that is not shown changes nothing", () => {
  const state = after({ type: "events_came", thread: "other", run: "r", events: [piece(1, "a")] });
  assert.deepEqual(state.progress, {});
});

test("any cut of a stream, with any overlap, gives the same words", () => {
  const all = Array.from({ length: 12 }, (_, index) => piece(index + 1, `${index} `));
  const whole = words(after(came(...all)));
  for (let cut = 1; cut < all.length; cut++) {
    for (let back = 0; back <= cut; back++) {
      assert.equal(words(after(came(...all.slice(0, cut)), came(...all.slice(cut - back)))), whole, `${cut}-${back}`);
    }
  }
});

test("a whole message takes the place of its pieces", () => {
  const state = after(came(piece(1, "Hel"), piece(2, "lo"), event(3, "message_said", { text: "Hello" }), piece(4, "Next")));
  assert.equal(words(state), "Hello\n\nNext");
});

test("withdrawn pieces are gone, whole messages stay", () => {
  const state = after(
    came(event(1, "message_said", { text: "kept" }), piece(2, "half"), event(3, "text_withdrawn"), piece(4, "anew")),
  );
  assert.equal(words(state), "kept\n\nanew");
});

test("a second attempt starts from nothing and says why", () => {
  const state = after(
    came(
      event(1, "attempt_started", { number: 1, resumed: true, reason: null }),
      piece(2, "lost"),
      event(3, "fell_back", { reason: "rejected" }),
      event(4, "attempt_started", { number: 2, resumed: false, reason: "rejected" }),
      piece(5, "found"),
    ),
  );
  assert.equal(words(state), "found");
  assert.equal(state.progress.r?.fellBack, "rejected");
  assert.equal(state.progress.r?.resumed, false);
});

test("a tool's end finds its beginning", () => {
  const state = after(
    came(
      event(1, "tool_started", { tool_id: "x", name: "Bash", input: { command: "ls" } }),
      event(2, "tool_started", { tool_id: "y", name: "Bash", input: { command: "pwd" } }),
      event(3, "tool_finished", { tool_id: "x", is_error: true, output: "no", ran: true }),
    ),
  );
  const tools = (state.progress.r?.parts ?? []).flatMap((part) => (part.kind === "tool" ? [part] : []));
  assert.deepEqual(
    tools.map((tool) => [tool.id, tool.output, tool.state]),
    [
      ["x", "no", "failed"],
      ["y", null, "running"],
    ],
  );
});

for (const { name, events, states } of toolStates) {
  test(`the state of a tool: ${name}`, () => {
    const state = after(came(...events.map(([kind, body], index) => event(index + 1, kind as string, body as Record<string, unknown>))));
    const tools = (state.progress.r?.parts ?? []).flatMap((part) => (part.kind === "tool" ? [[part.id, part.state]] : []));
    assert.deepEqual(Object.fromEntries(tools), states);
  });
}

test("a to-do list is known by its shape", () => {
  const todos = [{ content: "one", status: "completed" }, { content: "two", status: "in_progress" }];
  const state = after(came(event(1, "tool_started", { tool_id: "x", name: "TodoWrite", input: { todos } })));
  assert.deepEqual(
    state.progress.r?.todos.map((todo) => todo.state),
    ["completed", "in_progress"],
  );
});

test("the cursors name each run that has not ended, and no other", () => {
  const state = after(came(piece(1, "a"), piece(2, "b")), {
    type: "events_came",
    thread: "t",
    run: "over",
    events: [event(5, "run_ended", { status: "answered" })],
  });
  assert.deepEqual(cursors(state), { r: 2 });
});

test("an unknown kind of event moves the cursor and nothing else", () => {
  const state = after(came(piece(1, "a"), event(2, "of_a_later_version", { x: 1 })));
  assert.deepEqual([words(state), cursors(state)], ["a", { r: 2 }]);
});

test("a view that was overtaken by a newer one is left out", () => {
  const state = after(
    { type: "view_came", view: view([turn(1), turn(2)], { version: 9 }) },
    { type: "view_came", view: view([turn(1)], { version: 4 }) },
  );
  assert.deepEqual(ids(state), ["turn-1", "turn-2"]);
});

test("earlier pages stay when the end is fetched again", () => {
  const state = after(
    { type: "view_came", view: view([turn(101), turn(102)], { more: true }) },
    { type: "earlier_came", thread: "t", view: view([turn(1), turn(2)], { more: false }) },
    { type: "view_came", view: view([turn(102), turn(103)], { more: true, version: 2 }) },
  );
  assert.deepEqual(ids(state), ["turn-1", "turn-2", "turn-101", "turn-102", "turn-103"]);
  assert.equal(state.conversation?.more, false);
});

test("turns that were taken back elsewhere are gone with the next view", () => {
  const state = after(
    { type: "view_came", view: view([turn(1), turn(2), turn(3)]) },
    { type: "view_came", view: view([turn(1)], { version: 2 }) },
  );
  assert.deepEqual(ids(state), ["turn-1"]);
});

test("an earlier page never doubles a turn", () => {
  const state = after(
    { type: "view_came", view: view([turn(3), turn(4)], { more: true }) },
    { type: "earlier_came", thread: "t", view: view([turn(1), turn(2), turn(3)]) },
  );
  assert.deepEqual(ids(state), ["turn-1", "turn-2", "turn-3", "turn-4"]);
});

test("a run that was asked for shows at once, and once", () => {
  const state = after(
    { type: "view_came", view: view([]) },
    { type: "run_changed", run: run("r", { status: "queued" }) },
    { type: "run_changed", run: run("r", { status: "running" }) },
  );
  assert.deepEqual(
    state.conversation?.runs.map((each) => [each.id, each.status]),
    [["r", "running"]],
  );
});

test("the steps of an answered run are kept for its turn", () => {
  const state = after(came(piece(1, "a"), event(2, "run_ended", { status: "answered" })), {
    type: "view_came",
    view: view([turn(1), turn(2, { run_id: "r" })]),
  });
  assert.ok(state.progress.r);
});

test("the steps of a run whose turn is gone are dropped", () => {
  const state = after(came(piece(1, "a"), event(2, "run_ended", { status: "answered" })), {
    type: "view_came",
    view: view([turn(1)]),
  });
  assert.equal(state.progress.r, undefined);
});

test("threads are listed by last use, and a change moves one up", () => {
  const state = after(
    {
      type: "threads_listed",
      items: [thread("a", { updated_at: "2026-01-02" }), thread("b", { updated_at: "2026-01-01" })],
      total: 2,
      version: 1,
    },
    { type: "changed", version: 2, threads: [thread("b", { updated_at: "2026-01-03" })], deleted: [] },
  );
  assert.deepEqual(
    state.threads.map((each) => each.id),
    ["b", "a"],
  );
  assert.equal(state.version, 2);
});

test("a thread that is deleted elsewhere leaves the list and the screen", () => {
  const state = after(
    { type: "threads_listed", items: [thread("t")], total: 1, version: 1 },
    { type: "view_came", view: view([turn(1)]) },
    { type: "changed", version: 2, threads: [], deleted: ["t"] },
  );
  assert.deepEqual([state.threads.length, state.total, state.conversation, state.missing], [0, 0, null, true]);
});

test("another thread's view, come late, does not replace what is open", () => {
  const state = after({ type: "thread_opened", id: "u" }, { type: "view_came", view: view([turn(1)]) });
  assert.equal(state.conversation, null);
});

test("one run goes on, the others wait below it", () => {
  const runs = [run("a"), run("b", { status: "queued" }), run("c", { status: "queued" })];
  const { going, pending, queued } = arranged({ runs, turns: [] });
  assert.deepEqual([going?.id, pending, queued.map((each) => each.id)], ["a", null, ["b", "c"]]);
});

test("with none going on, the first that waits is about to", () => {
  const runs = [run("b", { status: "queued" }), run("c", { status: "queued" })];
  const { going, pending, queued } = arranged({ runs, turns: [] });
  assert.deepEqual([going, pending?.id, queued.map((each) => each.id)], [null, "b", ["c"]]);
});

test("a prompt that is held waits, and is not about to start", () => {
  const runs = [run("b", { status: "queued", held: true }), run("a", { status: "cancelled", started_at: "2026" })];
  const { going, pending, queued, unanswered } = arranged({ runs, turns: [] });
  assert.deepEqual([going, pending, queued.map((each) => each.id), unanswered?.id], [null, null, ["b"], "a"]);
  const more = arranged({ runs: [run("c", { status: "queued" }), run("d", { status: "queued" }), ...runs], turns: [] });
  assert.deepEqual([more.pending?.id, more.queued.map((each) => each.id)], ["c", ["d", "b"]]);
});

test("a prompt that was taken back is not shown, neither waiting nor as stopped", () => {
  const runs = [run("a", { status: "queued", cancel_requested: true }), run("b", { status: "cancelled" })];
  assert.deepEqual(arranged({ runs, turns: [] }), { going: null, pending: null, queued: [], unanswered: null });
});

test("a run whose answer is a turn is shown as that turn alone", () => {
  const runs = [run("r", { status: "failed", started_at: "2026" })];
  assert.equal(arranged({ runs, turns: [] }).unanswered?.id, "r");
  assert.equal(arranged({ runs, turns: [turn(2, { run_id: "r" })] }).unanswered, null);
});

test("a run that waits for a usage limit is shown among those that wait, and what it continues keeps its end", () => {
  const limited = run("a", { status: "failed", started_at: "2026" });
  const waiting = run("b", { status: "queued", not_before: "2026-11-16T04:45:00.000Z" });
  const found = arranged({ runs: [waiting, limited], turns: [] });
  assert.deepEqual([found.pending, found.queued.map((each) => each.id), found.unanswered?.id], [null, ["b"], "a"]);
});
