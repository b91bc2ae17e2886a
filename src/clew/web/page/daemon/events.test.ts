// Tests that events are read whole however the stream is cut, and that none is lost or repeated after a disconnect.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser, follow, type ServerEvent } from "./events.ts";
import { Problem } from "./http.ts";

const STREAM = 'id: 1\nevent: progress\ndata: {"a": 1}\n\n: still here\n\nid: 2\nevent: ended\ndata: one\ndata: two\n\n';
const EVENTS: ServerEvent[] = [
  { id: "1", event: "progress", data: '{"a": 1}' },
  { id: "2", event: "ended", data: "one\ntwo" },
];

test("a stream that is cut anywhere has the same events", () => {
  for (let at = 0; at <= STREAM.length; at++) {
    const parser = new EventParser();
    assert.deepEqual([...parser.feed(STREAM.slice(0, at)), ...parser.feed(STREAM.slice(at))], EVENTS, `cut at ${at}`);
  }
});

const event = (id: string): ServerEvent => ({ id, event: "progress", data: "" });

test("after a disconnect the rest is asked for, and waiting grows to a second", async () => {
  const connections: (ServerEvent | Problem)[][] = [
    [event("1"), event("2"), new Problem(0, "unreachable", "", "")],
    [new Problem(503, "busy", "", "")],
    [new Problem(0, "unreachable", "", "")],
    [new Problem(0, "unreachable", "", "")],
    [new Problem(0, "unreachable", "", "")],
    [event("3")],
    [event("4")],
  ];
  const asked: string[] = [];
  const waits: number[] = [];
  const got: string[] = [];
  async function* connect(path: string): AsyncGenerator<ServerEvent> {
    asked.push(path);
    for (const next of connections.shift() ?? []) {
      if (next instanceof Problem) throw next;
      yield next;
    }
  }
  const received = ({ id }: ServerEvent): boolean => (got.push(id), id === "4");
  const following = { path: (after: string) => after, received, signal: new AbortController().signal };
  await follow(following, connect, async (ms) => void waits.push(ms));
  assert.deepEqual(got, ["1", "2", "3", "4"]);
  assert.deepEqual(asked, ["", "2", "2", "2", "2", "2", "3"]);
  assert.deepEqual(waits, [100, 200, 400, 800, 1000, 100]);
});

test("a daemon that no longer knows it is not asked again", async () => {
  async function* connect(): AsyncGenerator<ServerEvent> {
    throw new Problem(404, "not_found", "gone", "");
  }
  const following = { path: () => "", received: () => false, signal: new AbortController().signal };
  await assert.rejects(follow(following, connect, async () => undefined), (problem: Problem) => problem.status === 404);
});

test("a stream without a last event is over when its owner says so", async () => {
  let connections = 0;
  const asked: string[] = [];
  async function* connect(): AsyncGenerator<ServerEvent> {
    connections += 1;
    yield event(String(connections));
  }
  const following = {
    after: "7",
    path: (after: string) => (asked.push(after), ""),
    received: () => false,
    isOver: async () => connections === 2,
    signal: new AbortController().signal,
  };
  await follow(following, connect, async () => undefined);
  assert.deepEqual(asked, ["7", "1"]);
});
