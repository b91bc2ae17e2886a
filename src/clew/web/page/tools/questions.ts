// Reads the question form of an agent. An agent may send anything: when a part cannot be read as a question, the raw form
// is shown, and it can be answered in free text.

interface FormOption {
  label: string;
  description: string;
}

export interface FormQuestion {
  question: string;
  header: string;
  options: FormOption[];
  multiple: boolean;
}

export interface Form {
  questions: FormQuestion[];
  complete: boolean; // false: a part could not be read, so the raw form is shown
}

/** The question under which the answer is sent when no question of the form can be read. */
export const UNREADABLE = "Your questions";

const scalarText = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" || typeof value === "boolean" ? String(value) : "";

const record = (value: unknown): Record<string, unknown> | null =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : null;

export function readForm(input: Record<string, unknown>): Form {
  const list: unknown[] = Array.isArray(input.questions) ? input.questions : [];
  const read = list.map(readQuestion);
  const questions = distinct(read.flatMap((each) => (each ? [each.question] : [])), (each) => each.question);
  const complete = questions.length === list.length && questions.length > 0 && read.every((each) => each?.complete);
  if (questions.length > 0) return { questions, complete };
  return { questions: [{ question: UNREADABLE, header: "", options: [], multiple: false }], complete };
}

/** Answers name a question by its text and an option by its label, so of equal ones only the first is kept. */
const distinct = <T,>(all: T[], by: (each: T) => string): T[] =>
  all.filter((each, index) => all.findIndex((other) => by(other) === by(each)) === index);

function readQuestion(raw: unknown): { question: FormQuestion; complete: boolean } | null {
  const each = record(raw);
  const question = scalarText(each?.question);
  if (!each || !question.trim()) return null;
  const list: unknown[] = Array.isArray(each.options) ? each.options : [];
  const options = distinct(list.map(readOption).filter((found) => found !== null), (found) => found.label);
  const complete = options.length === list.length && (each.options == null || Array.isArray(each.options));
  const header = scalarText(each.header);
  return { question: { question, header, multiple: each.multiSelect === true, options }, complete };
}

function readOption(raw: unknown): FormOption | null {
  const label = scalarText(record(raw)?.label) || scalarText(raw);
  return label.trim() ? { label, description: scalarText(record(raw)?.description) } : null;
}
