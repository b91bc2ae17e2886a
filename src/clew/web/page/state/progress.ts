// What a run has done so far, made from its events by a pure function. The same function shows a live run and the
// stored steps of an old one, so that a turn looks the same before and after a reload.

import type { RunEvent } from "./wire.ts";

/** As `core/tool_calls.py` says; `tests/core/tool_states.json` holds both to it. */
export type ToolState = "running" | "waiting" | "done" | "failed" | "declined" | "unfinished";

export interface ToolPart {
  kind: "tool";
  id: string;
  name: string;
  input: Record<string, unknown>;
  output: string | null; // null: its result is still out
  state: ToolState;
}

export type Part =
  | { kind: "text"; text: string; whole: boolean }
  | ToolPart
  | { kind: "asked"; id: string; tool: string; input: Record<string, unknown>; isForm: boolean; toolId: string | null; answer: Answered | null }
  | { kind: "note"; tone: "plain" | "warning"; text: string };

export interface Answered {
  allowed: boolean;
  message: string;
  by: "user" | "policy" | "withdrawn";
}

export interface Todo {
  text: string;
  state: "pending" | "in_progress" | "completed";
}

/** `seq` is the last event that counts: an event at or below it has been seen and is left out. */
export interface Progress {
  seq: number;
  parts: readonly Part[];
  todos: readonly Todo[];
  waitingFor: string | null;
  resumed: boolean | null;
  reason: string | null;
  fellBack: string | null;
  model: string | null;
  startedAt: string | null;
  ended: { status: string; message: string } | null;
}

export const NO_PROGRESS: Progress = {
  seq: 0,
  parts: [],
  todos: [],
  waitingFor: null,
  resumed: null,
  reason: null,
  fellBack: null,
  model: null,
  startedAt: null,
  ended: null,
};

export function advance(progress: Progress, events: readonly RunEvent[]): Progress {
  let next = progress;
  for (const event of events) {
    if (event.seq <= next.seq) continue; // keyed by (run, seq): each counts once, whatever is sent again
    next = { ...apply(next, event), seq: event.seq };
  }
  return next;
}

/** Stored steps have no pieces of text between them, and their numbers have gaps. */
export const fromSteps = (events: readonly RunEvent[]): Progress => advance(NO_PROGRESS, events);

function apply(progress: Progress, { kind, body, at }: RunEvent): Progress {
  switch (kind) {
    case "run_queued":
      return { ...progress, waitingFor: text(body.waiting_for) };
    case "attempt_started":
      return {
        ...progress,
        waitingFor: null,
        resumed: body.resumed === true,
        reason: body.reason == null ? null : text(body.reason),
        startedAt: progress.startedAt ?? at,
        parts: Number(body.omitted_turns) > 0 ? [omitted(Number(body.omitted_turns))] : [],
        todos: [],
      };
    case "session_started":
      return { ...progress, model: text(body.model) || progress.model };
    case "text_streamed":
      return { ...progress, parts: grown(progress.parts, text(body.text)) };
    case "text_withdrawn":
      return { ...progress, parts: unsaid(progress.parts) };
    case "message_said":
      return { ...progress, parts: [...unsaid(progress.parts), { kind: "text", text: text(body.text), whole: true }] };
    case "tool_started":
      return started(progress, body);
    case "tool_finished":
      return { ...progress, parts: finished(progress.parts, body) };
    case "question_asked":
      return { ...progress, parts: asked(progress.parts, body) };
    case "question_answered":
      return { ...progress, parts: answered(progress.parts, body) };
    case "question_withdrawn":
      return { ...progress, parts: answered(progress.parts, { ...body, allowed: false, by: "withdrawn" }) };
    case "agent_retried":
      return noted(progress, "warning", `The agent repeats a failed request (${text(body.error)}).`);
    case "compacted":
      return noted(progress, "plain", "The agent shortened its own memory.");
    case "fell_back":
      return { ...progress, fellBack: text(body.reason) };
    case "warned":
      return noted(progress, "warning", text(body.message));
    case "run_ended":
      return {
        ...progress,
        parts: progress.parts.map((part) => (isOpen(part) ? { ...part, state: "unfinished" } : part)),
        ended: { status: text(body.status), message: text(body.message) },
      };
    default:
      return progress; // a kind of a later version
  }
}

const text = (value: unknown): string => (typeof value === "string" ? value : "");

function omitted(count: number): Part {
  const what = count === 1 ? "the oldest turn was" : `the ${count} oldest turns were`;
  return { kind: "note", tone: "warning", text: `The transcript was too long: ${what} left out.` };
}

function noted(progress: Progress, tone: "plain" | "warning", words: string): Progress {
  const last = progress.parts.at(-1);
  if (last?.kind === "note" && last.text === words) return progress;
  return { ...progress, parts: [...progress.parts, { kind: "note", tone, text: words }] };
}

function grown(parts: readonly Part[], piece: string): readonly Part[] {
  const last = parts.at(-1);
  if (last?.kind === "text" && !last.whole) {
    return [...parts.slice(0, -1), { ...last, text: last.text + piece }];
  }
  return [...parts, { kind: "text", text: piece, whole: false }];
}

/** Without the pieces of a message that is not whole: they are replaced by the whole, or do not count. */
function unsaid(parts: readonly Part[]): readonly Part[] {
  return parts.filter((part) => part.kind !== "text" || part.whole);
}

function started(progress: Progress, body: Record<string, unknown>): Progress {
  const input = record(body.input);
  const id = text(body.tool_id);
  const waits = progress.parts.some((part) => part.kind === "asked" && !part.answer && part.toolId === id);
  const tool: ToolPart = { kind: "tool", id, name: text(body.name), input, output: null, state: waits ? "waiting" : "running" };
  return { ...progress, parts: [...progress.parts, tool], todos: todosOf(input) ?? progress.todos };
}

function finished(parts: readonly Part[], body: Record<string, unknown>): readonly Part[] {
  const output = text(body.output);
  return parts.map((part) =>
    part.kind === "tool" && part.id === body.tool_id ? { ...part, output, state: ending(parts, part.id, body) } : part,
  );
}

function ending(parts: readonly Part[], id: string, body: Record<string, unknown>): ToolState {
  const refused = parts.some(
    (part) => part.kind === "asked" && part.toolId === id && part.answer?.allowed === false && part.answer.by !== "withdrawn",
  );
  if (body.declined === true || (body.ran === false && refused)) return "declined";
  return body.is_error === true || body.ran === false ? "failed" : "done";
}

export const isOpen = (part: Part): part is ToolPart =>
  part.kind === "tool" && (part.state === "running" || part.state === "waiting");

const moved = (parts: readonly Part[], id: string | null, state: ToolState): readonly Part[] =>
  id === null ? parts : parts.map((part) => (isOpen(part) && part.id === id ? { ...part, state } : part));

function asked(parts: readonly Part[], body: Record<string, unknown>): readonly Part[] {
  const tool = text(body.tool);
  const input = record(body.input);
  const toolId = text(body.tool_id) || alike(parts, tool, input);
  const part: Part = { kind: "asked", id: text(body.question_id), tool, input, isForm: body.is_form === true, toolId, answer: null };
  return [...moved(parts, toolId, "waiting"), part];
}

/** An agent need not say which call it asks about: then it is the one with the same input. */
function alike(parts: readonly Part[], tool: string, input: Record<string, unknown>): string | null {
  const given = JSON.stringify(input);
  const found = parts.find(
    (part) => part.kind === "tool" && part.state === "running" && part.name === tool && JSON.stringify(part.input) === given,
  );
  return found?.kind === "tool" ? found.id : null;
}

function answered(parts: readonly Part[], body: Record<string, unknown>): readonly Part[] {
  const by = body.by === "policy" || body.by === "withdrawn" ? body.by : "user";
  const answer: Answered = { allowed: body.allowed === true, message: text(body.message), by };
  const about = parts.find((part) => part.kind === "asked" && part.id === body.question_id);
  const told = parts.map((part) => (part === about ? ({ ...part, answer } as Part) : part));
  return about?.kind === "asked" ? moved(told, about.toolId, "running") : told;
}

const record = (value: unknown): Record<string, unknown> =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : {};

/** A to-do list is known by its shape, whatever the agent calls the tool. */
function todosOf(input: Record<string, unknown>): Todo[] | null {
  const list = Array.isArray(input.todos) ? input.todos : Array.isArray(input.items) ? input.items : null;
  if (!list || list.length === 0) return null;
  const todos: Todo[] = [];
  for (const each of list.map(record)) {
    const words = text(each.content) || text(each.text);
    if (!words) return null;
    const done = each.status === "completed" || each.completed === true;
    todos.push({ text: words, state: done ? "completed" : each.status === "in_progress" ? "in_progress" : "pending" });
  }
  return todos;
}

export const isTodoTool = (part: ToolPart): boolean => todosOf(part.input) !== null;

/** The run's words as the stored turn has them: whole messages, then what has come of the next. */
export function said(progress: Progress): string {
  return progress.parts.flatMap((part) => (part.kind === "text" && part.text ? [part.text] : [])).join("\n\n");
}
