// What a run has done so far, computed from its events by a pure function. The same function serves a live run and the
// stored steps of an old one, so a turn looks the same before and after a reload.

import type { RunEvent } from "../daemon/wire.ts";

/** The states of `core/runs/tool_calls.py`; the cases in `tests/core/tool_states.json` check both. */
export type ToolState = "running" | "waiting" | "done" | "failed" | "declined" | "unfinished";

export interface ToolPart {
  kind: "tool";
  id: string;
  name: string;
  input: Record<string, unknown>;
  output: string | null; // null: there is no result yet
  state: ToolState;
  allowedBy?: string; // what allowed it, if a person had allowed it before it was asked
}

interface QuestionPart {
  kind: "question";
  id: string;
  toolId: string | null; // the call that it is about
  answer: QuestionAnswer | null;
}

export type Part =
  | { kind: "text"; text: string; complete: boolean }
  | ToolPart
  | QuestionPart
  | { kind: "note"; tone: "plain" | "warning"; text: string };

interface QuestionAnswer {
  allowed: boolean;
  message: string;
  by: "user" | "policy" | "withdrawn";
}

export interface Todo {
  text: string;
  state: "pending" | "in_progress" | "completed";
}

/** `seq` is the number of the last event that was applied: an event at or below it is ignored. */
export interface Progress {
  seq: number;
  parts: readonly Part[];
  todos: readonly Todo[];
  waitingFor: string | null;
  resumed: boolean | null;
  reason: string | null;
  rewoundTo: number | null; // the number of the turn to which the session was rewound
  fellBack: string | null;
  startedAt: string | null;
  ended: boolean;
}

export const NO_PROGRESS: Progress = {
  seq: 0,
  parts: [],
  todos: [],
  waitingFor: null,
  resumed: null,
  reason: null,
  rewoundTo: null,
  fellBack: null,
  startedAt: null,
  ended: false,
};

type Fields = Record<string, unknown>;

export function applyEvents(progress: Progress, events: readonly RunEvent[]): Progress {
  let next = progress;
  for (const event of events) {
    if (event.seq <= next.seq) continue; // each event counts once, however often it is sent
    next = { ...applyEvent(next, event), seq: event.seq };
  }
  return next;
}

/** The progress that the stored steps of a run give. They contain no pieces of text, and their numbers have gaps. */
export const progressOf = (steps: readonly RunEvent[]): Progress => applyEvents(NO_PROGRESS, steps);

function applyEvent(progress: Progress, { kind, body, at }: RunEvent): Progress {
  switch (kind) {
    case "run_queued":
      return { ...progress, waitingFor: asText(body.waiting_for) };
    case "attempt_started":
      return {
        ...progress,
        waitingFor: null,
        resumed: body.resumed === true,
        reason: body.reason == null ? null : asText(body.reason),
        rewoundTo: typeof body.rewound_to === "number" ? body.rewound_to : null,
        startedAt: progress.startedAt ?? at,
        parts: Number(body.omitted_turns) > 0 ? [omittedTurns(Number(body.omitted_turns))] : [],
        todos: [],
      };
    case "text_streamed":
      return { ...progress, parts: withText(progress.parts, asText(body.text)) };
    case "text_withdrawn":
      return { ...progress, parts: withoutIncomplete(progress.parts) };
    case "message_said": {
      const message: Part = { kind: "text", text: asText(body.text), complete: true };
      return { ...progress, parts: [...withoutIncomplete(progress.parts), message] };
    }
    case "tool_started":
      return toolStarted(progress, body);
    case "tool_finished":
      return { ...progress, parts: toolFinished(progress.parts, body) };
    case "question_asked":
      return { ...progress, parts: questionAsked(progress.parts, body) };
    case "question_answered":
      return { ...progress, parts: questionAnswered(progress.parts, body) };
    case "question_withdrawn":
      return { ...progress, parts: questionAnswered(progress.parts, { ...body, allowed: false, by: "withdrawn" }) };
    case "agent_retried":
      return withNote(progress, "warning", `The agent is retrying a failed request (${asText(body.error)}).`);
    case "compacted":
      return withNote(progress, "plain", "The agent compacted its session.");
    case "fell_back":
      return { ...progress, fellBack: asText(body.reason) };
    case "warned":
      return withNote(progress, "warning", asText(body.message));
    case "run_ended":
      return {
        ...progress,
        parts: progress.parts.map((part) => (isOpen(part) ? { ...part, state: "unfinished" } : part)),
        ended: true,
      };
    default:
      return progress; // of a later version of the daemon, or not shown
  }
}

const asText = (value: unknown): string => (typeof value === "string" ? value : "");

const asFields = (value: unknown): Fields =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Fields) : {};

function omittedTurns(count: number): Part {
  const turns = count === 1 ? "the oldest turn was" : `the ${count} oldest turns were`;
  return { kind: "note", tone: "warning", text: `The transcript was too long: ${turns} left out.` };
}

function withNote(progress: Progress, tone: "plain" | "warning", text: string): Progress {
  const last = progress.parts.at(-1);
  if (last?.kind === "note" && last.text === text) return progress;
  return { ...progress, parts: [...progress.parts, { kind: "note", tone, text }] };
}

function withText(parts: readonly Part[], piece: string): readonly Part[] {
  const last = parts.at(-1);
  if (last?.kind === "text" && !last.complete) {
    return [...parts.slice(0, -1), { ...last, text: last.text + piece }];
  }
  return [...parts, { kind: "text", text: piece, complete: false }];
}

/** Without the pieces of an incomplete message: the complete message replaces them, or they were withdrawn. */
function withoutIncomplete(parts: readonly Part[]): readonly Part[] {
  return parts.filter((part) => part.kind !== "text" || part.complete);
}

function toolStarted(progress: Progress, body: Fields): Progress {
  const input = asFields(body.input);
  const id = asText(body.tool_id);
  const waits = progress.parts.some((part) => part.kind === "question" && !part.answer && part.toolId === id);
  const tool: ToolPart = { kind: "tool", id, name: asText(body.name), input, output: null, state: waits ? "waiting" : "running" };
  return { ...progress, parts: [...progress.parts, tool], todos: todosOf(input) ?? progress.todos };
}

function toolFinished(parts: readonly Part[], body: Fields): readonly Part[] {
  const output = asText(body.output);
  return parts.map((part) =>
    part.kind === "tool" && part.id === body.tool_id ? { ...part, output, state: finalState(parts, part.id, body) } : part,
  );
}

function finalState(parts: readonly Part[], id: string, body: Fields): ToolState {
  const refused = parts.some(
    (part) => part.kind === "question" && part.toolId === id && part.answer?.allowed === false && part.answer.by !== "withdrawn",
  );
  if (body.declined === true || (body.ran === false && refused)) return "declined";
  return body.is_error === true || body.ran === false ? "failed" : "done";
}

export const isOpen = (part: Part): part is ToolPart =>
  part.kind === "tool" && (part.state === "running" || part.state === "waiting");

const withToolState = (parts: readonly Part[], id: string | null, state: ToolState): readonly Part[] =>
  id === null ? parts : parts.map((part) => (isOpen(part) && part.id === id ? { ...part, state } : part));

function questionAsked(parts: readonly Part[], body: Fields): readonly Part[] {
  const toolId = asText(body.tool_id) || callWithInput(parts, asText(body.tool), asFields(body.input));
  const question: QuestionPart = { kind: "question", id: asText(body.question_id), toolId, answer: null };
  return [...withToolState(parts, toolId, "waiting"), question];
}

/** When an agent does not say which call its question is about, it is the running one with the same input. */
function callWithInput(parts: readonly Part[], tool: string, input: Fields): string | null {
  const wanted = JSON.stringify(input);
  const found = parts.find(
    (part) => part.kind === "tool" && part.state === "running" && part.name === tool && JSON.stringify(part.input) === wanted,
  );
  return found?.kind === "tool" ? found.id : null;
}

const RULES: Record<string, string> = {
  "run rule": "You had allowed all of this run.",
  "thread rule": "You had allowed this always in this thread.",
};

function questionAnswered(parts: readonly Part[], body: Fields): readonly Part[] {
  const by = body.by === "policy" || body.by === "withdrawn" ? body.by : "user";
  const answer: QuestionAnswer = { allowed: body.allowed === true, message: asText(body.message), by };
  const question = parts.find((part) => part.kind === "question" && part.id === body.question_id);
  if (question?.kind !== "question") return parts;
  const rule = answer.allowed ? RULES[asText(body.by)] : undefined;
  const updated = parts.map((part) => {
    if (part === question) return { ...question, answer };
    return rule && part.kind === "tool" && part.id === question.toolId ? { ...part, allowedBy: rule } : part;
  });
  return withToolState(updated, question.toolId, "running");
}

/** A to-do list is recognised by its shape, whatever the agent calls the tool. */
function todosOf(input: Fields): Todo[] | null {
  const list = Array.isArray(input.todos) ? input.todos : Array.isArray(input.items) ? input.items : null;
  if (!list || list.length === 0) return null;
  const todos: Todo[] = [];
  for (const each of list.map(asFields)) {
    const text = asText(each.content) || asText(each.text);
    if (!text) return null;
    const done = each.status === "completed" || each.completed === true;
    todos.push({ text, state: done ? "completed" : each.status === "in_progress" ? "in_progress" : "pending" });
  }
  return todos;
}

export const isTodoTool = (part: ToolPart): boolean => todosOf(part.input) !== null;

/** The text of a run as the stored turn has it: complete messages, then what has arrived of the next one. */
export function textOf(parts: readonly Part[]): string {
  return parts.flatMap((part) => (part.kind === "text" && part.text ? [part.text] : [])).join("\n\n");
}
