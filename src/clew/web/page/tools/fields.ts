// All fields of a tool call's input, the most informative first. A person who allows a call must be able to see all of it,
// so nothing is left out; a long field is folded, with its length.

import { asText, plural } from "../text/format.ts";
import { fieldsInDiffs, mainField } from "./edits.ts";

export interface Field {
  name: string;
  text: string;
  size: string; // "" when it is short enough to be shown unfolded
}

type Input = Record<string, unknown>;

const LONG_CHARS = 1000;
const LONG_LINES = 14;
const MAX_FIELDS = 40; // the others are shown together, as one field

export function fieldsOf(input: Input): Field[] {
  const main = mainField(input);
  const inDiffs = fieldsInDiffs(input);
  const names = Object.keys(input).filter((name) => !inDiffs.has(name));
  const ordered = main !== null && names.includes(main) ? [main, ...names.filter((name) => name !== main)] : names;
  const fields = ordered.slice(0, MAX_FIELDS).map((name) => field(name, input[name]));
  const rest = ordered.slice(MAX_FIELDS);
  if (rest.length === 0) return fields;
  const others = Object.fromEntries(rest.map((name) => [name, input[name]]));
  return [...fields, { ...field("", others), name: plural(rest.length, "more field") }];
}

function field(name: string, value: unknown): Field {
  const text = asText(value);
  return { name, text, size: sizeOf(text) };
}

/** The size of a long text, in words; "" for a short one. */
export function sizeOf(text: string): string {
  const lines = text.split("\n").length;
  if (text.length <= LONG_CHARS && lines <= LONG_LINES) return "";
  return `${plural(text.length, "character")}${lines > 1 ? `, ${plural(lines, "line")}` : ""}`;
}
