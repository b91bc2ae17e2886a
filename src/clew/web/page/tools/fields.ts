// What a tool was given, whole: the argument that says most first, then every other one. Whoever allows a call must be
// able to see all of it, so nothing is left out; what is long is folded, and says how long it is.

import { mainField, shownByEdits } from "./edits.ts";
import { plural } from "./words.ts";

export interface Field {
  name: string;
  text: string;
  size: string; // "" when it is short enough to be shown as it is
}

type Input = Record<string, unknown>;

const LONG_CHARS = 1000;
const LONG_LINES = 14;
const MOST = 40; // fields one by one; the others together

export function fieldsOf(input: Input): Field[] {
  const main = mainField(input);
  const shown = shownByEdits(input);
  const names = Object.keys(input).filter((name) => !shown.has(name));
  const ordered = main !== null && names.includes(main) ? [main, ...names.filter((name) => name !== main)] : names;
  const fields = ordered.slice(0, MOST).map((name) => field(name, input[name]));
  const rest = ordered.slice(MOST);
  if (rest.length === 0) return fields;
  const others = Object.fromEntries(rest.map((name) => [name, input[name]]));
  return [...fields, { ...field("", others), name: `${plural(rest.length, "more field")}` }];
}

function field(name: string, value: unknown): Field {
  const text = asText(value);
  return { name, text, size: sizeOf(text) };
}

export const asText = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? String(value));

/** How long a text is, when it is too long to be seen at a glance. */
export function sizeOf(text: string): string {
  const lines = text.split("\n").length;
  if (text.length <= LONG_CHARS && lines <= LONG_LINES) return "";
  return `${plural(text.length, "character")}${lines > 1 ? `, ${plural(lines, "line")}` : ""}`;
}
