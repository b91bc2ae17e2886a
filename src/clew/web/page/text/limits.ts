// Limits beyond which Markdown is not parsed, because that would take a browser seconds. The parser pairs marks and visits
// lists in time that grows with the square of their number, and it fills up short rows of a table to its full width, so
// that few characters make many cells. Such a text is shown as plain text.

export const MAX_MARKS = 2_000; // in one paragraph, heading or cell
export const MAX_ITEMS = 2_000; // in all lists together
export const MAX_CELLS = 5_000; // in all tables together
const MAX_CHARS = 1_000_000;
export const MAX_DEPTH = 20; // of nested quotations and lists

const MARKS = /[*_~`<>[\]!&\\]|https?:|www\.|@/g;
const ITEM = /^[ \t]*(?:> ?)*(?:[-+*]|\d{1,9}[.)])[ \t]/;
const COLUMNS = /^[ >]*(?=.*[|:])[|:-][|: -]*$/; // the line below the header of a table
const BLANK = /^[ \t>]*$/;
const LEVEL = /(?:>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t])|[ \t]{2})[ \t]*/y;

/** Stops counting at the limit. */
export function hasTooManyMarks(text: string): boolean {
  if (text.length <= MAX_MARKS) return false;
  MARKS.lastIndex = 0;
  for (let count = 0; MARKS.exec(text); count += 1) if (count === MAX_MARKS) return true;
  return false;
}

/** Whether the whole text is too long, has too many items or cells, or is nested too deep. */
export function exceedsLimits(text: string): boolean {
  if (text.length > MAX_CHARS) return true;
  const lines = text.split(/\r\n|[\r\n]/); // as the parser does
  if (hasManyCells(lines)) return true;
  let items = 0;
  for (const line of lines) {
    if (ITEM.test(line) && (items += 1) > MAX_ITEMS) return true;
    if (depthOf(line) > MAX_DEPTH) return true;
  }
  return false;
}

/** Text that follows a table without a blank line counts as its rows: rather too many cells than too few. */
function hasManyCells(lines: string[]): boolean {
  let cells = 0;
  let columns = 0;
  for (const line of lines) {
    if (BLANK.test(line)) columns = 0;
    else if (COLUMNS.test(line)) columns = Math.max(columns, line.match(/-+/g)?.length ?? 0);
    cells += columns;
    if (cells > MAX_CELLS) return true;
  }
  return false;
}

function depthOf(line: string): number {
  const indent = /^[ \t]*/.exec(line)?.[0].length ?? 0;
  let depth = ITEM.test(line) ? indent >> 1 : 0;
  LEVEL.lastIndex = indent;
  while (depth <= MAX_DEPTH && LEVEL.test(line)) depth += 1;
  return depth;
}
