// A form that the agent asks for, as far as it makes sense. An agent may send anything: what cannot be shown as a
// question is shown as it came, and can be answered in words.

export interface Option {
  label: string;
  description: string;
}

export interface Asked {
  question: string;
  header: string;
  options: Option[];
  many: boolean;
}

export interface AskedForm {
  asked: Asked[];
  whole: boolean; // false: some of it could not be read, so all of it is shown as it came
}

/** What an answer to a form is filed under when not one question of it can be read. */
export const UNREADABLE = "Your questions";

const word = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" || typeof value === "boolean" ? String(value) : "";

const record = (value: unknown): Record<string, unknown> | null =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : null;

export function askedOf(input: Record<string, unknown>): AskedForm {
  const list: unknown[] = Array.isArray(input.questions) ? input.questions : [];
  const read = list.map(one);
  const asked = apart(read.flatMap((each) => (each ? [each.asked] : [])), (each) => each.question);
  const whole = asked.length === list.length && asked.length > 0 && read.every((each) => each?.whole);
  if (asked.length > 0) return { asked, whole };
  return { asked: [{ question: UNREADABLE, header: "", options: [], many: false }], whole };
}

/** Questions are answered by their text, options chosen by their label: a second one of the same cannot be meant. */
const apart = <T,>(all: T[], by: (each: T) => string): T[] =>
  all.filter((each, index) => all.findIndex((other) => by(other) === by(each)) === index);

function one(given: unknown): { asked: Asked; whole: boolean } | null {
  const each = record(given);
  const question = word(each?.question);
  if (!each || !question.trim()) return null;
  const list: unknown[] = Array.isArray(each.options) ? each.options : [];
  const options = apart(list.map(option).filter((found) => found !== null), (found) => found.label);
  const whole = options.length === list.length && (each.options == null || Array.isArray(each.options));
  return { asked: { question, header: word(each.header), many: each.multiSelect === true, options }, whole };
}

function option(given: unknown): Option | null {
  const label = word(record(given)?.label) || word(given);
  return label.trim() ? { label, description: word(record(given)?.description) } : null;
}
