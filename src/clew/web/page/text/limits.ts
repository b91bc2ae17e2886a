// What would take a browser seconds to lay out as Markdown: the parser pairs marks, and looks into lists again and again, in
// time that grows with the square of their number; a short row of a table is filled up to the width of the table, so that few
// characters make many cells. Such a text is shown as it came.

export const MOST_MARKS = 2_000; // of one paragraph, heading or cell
export const MOST_ITEMS = 2_000; // of all lists together
export const MOST_CELLS = 5_000; // of all tables together
export const MOST_CHARS = 1_000_000;
export const MOST_DEPTH = 20; // of quotations and lists in each other

const MARKS = /[*_~`<>[\]!&\\]|https?:|www\.|@/g;
const ITEM = /^[ \t]*(?:> ?)*(?:[-+*]|\d{1,9}[.)])[ \t]/;
const COLUMNS = /^[ >]*(?=.*[|:])[|:-][|: -]*$/; // the line below the head of a table
const BLANK = /^[ \t>]*$/;
const LEVEL = /(?:>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t])|[ \t]{2})[ \t]*/y;

/** Counts no further than it must. */
export function hasManyMarks(text: string): boolean {
  if (text.length <= MOST_MARKS) return false;
  MARKS.lastIndex = 0;
  for (let count = 0; MARKS.exec(text); count += 1) if (count === MOST_MARKS) return true;
  return false;
}

/** Is the whole of it too much: too long, too many items or cells, or nested too deep? */
export function isHeavy(text: string): boolean {
  if (text.length > MOST_CHARS) return true;
  const lines = text.split(/\r\n|[\r\n]/); // as the parser does
  if (hasManyCells(lines)) return true;
  let items = 0;
  for (const line of lines) {
    if (ITEM.test(line) && (items += 1) > MOST_ITEMS) return true;
    if (depthOf(line) > MOST_DEPTH) return true;
  }
  return false;
}

/** What follows a table without a blank line counts as its rows: too many cells rather than too few. */
function hasManyCells(lines: string[]): boolean {
  let cells = 0;
  let columns = 0;
  for (const line of lines) {
    if (BLANK.test(line)) columns = 0;
    else if (COLUMNS.test(line)) columns = Math.max(columns, line.match(/-+/g)?.length ?? 0);
    cells += columns;
    if (cells > MOST_CELLS) return true;
  }
  return false;
}

function depthOf(line: string): number {
  const indent = /^[ \t]*/.exec(line)?.[0].length ?? 0;
  let depth = ITEM.test(line) ? indent >> 1 : 0;
  LEVEL.lastIndex = indent;
  while (depth <= MOST_DEPTH && LEVEL.test(line)) depth += 1;
  return depth;
}
