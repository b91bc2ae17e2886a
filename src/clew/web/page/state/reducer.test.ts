// Tests of the reducer: nothing is lost, duplicated or stale, in whatever order responses and events arrive.

import assert from "node:assert/strict";
import { test } from "node:test";
import toolStates from "../../../../../tests/core/tool_states.json";
import { run, thread, turn } from "../daemon/samples.ts";
import type { RunEvent, Turn, View } from "../daemon/wire.ts";
import { textOf } from "./progress.ts";
import { cursors, EMPTY_STATE, reduce, type DaemonState, type Update } from "./reducer.ts";

const view = (turns: Turn[], fields: Partial<View> = {}): View => ({
  thread: thread("t"),
  turns,
  more: false,
  runs: [],
  questions: [],
  outside_turns: 0,
  version: 1,
  ...fields,
});

const event = (seq: number, kind: string, body: Record<string, unknown> = {}): RunEvent => ({ seq, at: "", kind, body });
const piece = (seq: number, text: string): RunEvent => event(seq, "text_streamed", { text });
const received = (...events: RunEvent[]): Update => ({ type: "events_received", thread: "t", run: "r", events });

const after = (...updates: Update[]): DaemonState => updates.reduce(reduce, { ...EMPTY_STATE, open: "t" });
const words = (state: DaemonState): string => textOf(state.progress.r?.parts ?? []);
const ids = (state: DaemonState): string[] => (state.conversation?.turns ?? []).map((each) => each.id);

test("an event that is sent again counts once", () => {
  const state = after(received(piece(1, "a"), piece(2, "b")), received(piece(1, "a"), piece(2, "b"), piece(3, "c")));
  assert.equal(words(state), "abc");
});

test("an event of a thread that is not shown changes nothing", () => {
  const state = after({ type: "events_received", thread: "other", run: "r", events: [piece(1, "a")] });
  assert.deepEqual(state.progress, {});
});

test("a stream cut at any point, resent with any overlap, gives the same text", () => {
  const all = Array.from({ length: 12 }, (_, index) => piece(index + 1, `${index} `));
  const whole = words(after(received(...all)));
  for (let cut = 1; cut < all.length; cut++) {
    for (let back = 0; back <= cut; back++) {
      assert.equal(words(after(received(...all.slice(0, cut)), received(...all.slice(cut - back)))), whole, `${cut}-${back}`);
    }
  }
});

test("a complete message replaces its pieces", () => {
  const state = after(received(piece(1, "Hel"), piece(2, "lo"), event(3, "message_said", { text: "Hello" }), piece(4, "Next")));
  assert.equal(words(state), "Hello\n\nNext");
});

test("withdrawn pieces are removed, complete messages stay", () => {
  const state = after(
    received(event(1, "message_said", { text: "kept" }), piece(2, "half"), event(3, "text_withdrawn"), piece(4, "anew")),
  );
  assert.equal(words(state), "kept\n\nanew");
});

test("a second attempt starts empty and says why", () => {
  const state = after(
    received(
      event(1, "attempt_started", { number: 1, resumed: true, reason: "history_changed", rewound_to: 4 }),
      piece(2, "lost"),
      event(3, "fell_back", { reason: "rejected" }),
      event(4, "attempt_started", { number: 2, resumed: false, reason: "rejected" }),
      piece(5, "found"),
    ),
  );
  assert.equal(words(state), "found");
  assert.equal(state.progress.r?.fellBack, "rejected");
  assert.equal(state.progress.r?.resumed, false);
  assert.equal(state.progress.r?.rewoundTo, null);
});

test("a tool's result is matched to its call", () => {
  const state = after(
    received(
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
    const state = after(received(...events.map(([kind, body], index) => event(index + 1, kind as string, body as Record<string, unknown>))));
    const tools = (state.progress.r?.parts ?? []).flatMap((part) => (part.kind === "tool" ? [[part.id, part.state]] : []));
    assert.deepEqual(Object.fromEntries(tools), states);
  });
}

test("a to-do list is recognised by its shape", () => {
  const todos = [{ content: "one", status: "completed" }, { content: "two", status: "in_progress" }];
  const state = after(received(event(1, "tool_started", { tool_id: "x", name: "TodoWrite", input: { todos } })));
  assert.deepEqual(
    state.progress.r?.todos.map((todo) => todo.state),
    ["completed", "in_progress"],
  );
});

test("there is a cursor for each run that has not ended, and for no other", () => {
  const state = after(received(piece(1, "a"), piece(2, "b")), {
    type: "events_received",
    thread: "t",
    run: "over",
    events: [event(5, "run_ended", { status: "answered" })],
  });
  assert.deepEqual(cursors(state), { r: 2 });
});

test("an unknown kind of event moves the cursor and nothing else", () => {
  const state = after(received(piece(1, "a"), event(2, "of_a_later_version", { x: 1 })));
  assert.deepEqual([words(state), cursors(state)], ["a", { r: 2 }]);
});

test("a view that is older than the current one is ignored", () => {
  const state = after(
    { type: "view_loaded", view: view([turn(1), turn(2)], { version: 9 }) },
    { type: "view_loaded", view: view([turn(1)], { version: 4 }) },
  );
  assert.deepEqual(ids(state), ["turn-1", "turn-2"]);
});

test("earlier pages stay when the newest page is loaded again", () => {
  const state = after(
    { type: "view_loaded", view: view([turn(101), turn(102)], { more: true, thread: thread("t", { turns: 4 }) }) },
    { type: "earlier_loaded", thread: "t", view: view([turn(1), turn(2)], { more: false }) },
    { type: "view_loaded", view: view([turn(102), turn(103)], { more: true, thread: thread("t", { turns: 5 }), version: 2 }) },
  );
  assert.deepEqual(ids(state), ["turn-1", "turn-2", "turn-101", "turn-102", "turn-103"]);
  assert.equal(state.conversation?.more, false);
});

test("a turn knows its number, whatever pages are loaded and whatever was archived", () => {
  const state = after(
    { type: "view_loaded", view: view([turn(8), turn(9)], { more: true, thread: thread("t", { turns: 6 }) }) },
    { type: "earlier_loaded", thread: "t", view: view([turn(5), turn(6)], { more: true }) },
  );
  assert.deepEqual([state.conversation?.turnsBefore, ids(state).length], [2, 4]);
});

test("earlier pages are loaded again when turns came in between them, and no turn is shown twice", () => {
  const moved = (position: number): Turn => ({ ...turn(position - 2), position }); // two turns came in before it
  const state = after(
    { type: "view_loaded", view: view([turn(5), turn(6)], { more: true, thread: thread("t", { turns: 6 }) }) },
    { type: "earlier_loaded", thread: "t", view: view([turn(1), turn(2), turn(3), turn(4)], { more: false }) },
    { type: "view_loaded", view: view([moved(7), moved(8)], { more: true, thread: thread("t", { turns: 8 }), version: 2 }) },
  );
  assert.deepEqual(ids(state), ["turn-5", "turn-6"]);
  assert.deepEqual([state.conversation?.more, state.conversation?.turnsBefore], [true, 6]);
});

test("a view says how many turns were made outside Clew", () => {
  const loaded: Update = { type: "view_loaded", view: view([turn(1)], { outside_turns: 3 }) };
  assert.equal(after(loaded).conversation?.outsideTurns, 3);
  assert.equal(after(loaded, { type: "view_loaded", view: view([turn(1)]) }).conversation?.outsideTurns, 0);
});

test("turns that another client archived are gone with the next view", () => {
  const state = after(
    { type: "view_loaded", view: view([turn(1), turn(2), turn(3)]) },
    { type: "view_loaded", view: view([turn(1)], { version: 2 }) },
  );
  assert.deepEqual(ids(state), ["turn-1"]);
});

test("an earlier page never duplicates a turn", () => {
  const state = after(
    { type: "view_loaded", view: view([turn(3), turn(4)], { more: true }) },
    { type: "earlier_loaded", thread: "t", view: view([turn(1), turn(2), turn(3)]) },
  );
  assert.deepEqual(ids(state), ["turn-1", "turn-2", "turn-3", "turn-4"]);
});

test("a new run is shown at once, and only once", () => {
  const state = after(
    { type: "view_loaded", view: view([]) },
    { type: "run_changed", run: run("r", { status: "queued" }) },
    { type: "run_changed", run: run("r", { status: "running" }) },
  );
  assert.deepEqual(
    state.conversation?.runs.map((each) => [each.id, each.status]),
    [["r", "running"]],
  );
});

test("the steps of an answered run are kept for its turn", () => {
  const state = after(received(piece(1, "a"), event(2, "run_ended", { status: "answered" })), {
    type: "view_loaded",
    view: view([turn(1), turn(2, { run_id: "r" })]),
  });
  assert.ok(state.progress.r);
});

test("the steps of a run whose turn is gone are dropped", () => {
  const state = after(received(piece(1, "a"), event(2, "run_ended", { status: "answered" })), {
    type: "view_loaded",
    view: view([turn(1)]),
  });
  assert.equal(state.progress.r, undefined);
});

test("threads are listed by last use, and a change moves one to the top", () => {
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

test("a thread that another client deleted disappears from the list and the view", () => {
  const state = after(
    { type: "threads_listed", items: [thread("t")], total: 1, version: 1 },
    { type: "view_loaded", view: view([turn(1)]) },
    { type: "changed", version: 2, threads: [], deleted: ["t"] },
  );
  assert.deepEqual([state.threads.length, state.total, state.conversation, state.missing], [0, 0, null, true]);
});

test("another thread's late view does not replace the open one", () => {
  const state = after({ type: "thread_opened", id: "u" }, { type: "view_loaded", view: view([turn(1)]) });
  assert.equal(state.conversation, null);
});
