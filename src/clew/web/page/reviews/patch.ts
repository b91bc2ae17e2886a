// A diff as git words it, file by file. The text is cut at once; the lines of a file are read when somebody looks at it.

import type { Line } from "./edits.ts";

/** What the diff says of one file. A file whose type changed has two: it is deleted, and made anew. */
export interface FilePatch {
  path: string; // the new name; of a deleted file the old one
  oldPath: string | null; // of a renamed or copied one
  kind: "changed" | "added" | "deleted" | "renamed" | "copied";
  notes: string[]; // what changed besides lines: the mode, the name
  binary: boolean;
  body: string; // its hunks as text
  lines: number; // in it
}

export interface PatchLine extends Line {
  old: number | null; // its number in the file as it was
  now: number | null; // and as it is
}

export interface Hunk {
  place: string; // what git says the lines are in: a function, a heading
  lines: PatchLine[];
}

export const LINE_MOST = 1000; // characters of one line: nobody reads further

/** A line of a file begins with a sign, so that these can only be git's own. Lines end at a newline and nowhere else. */
export const patchesOf = (text: string): FilePatch[] => `\n${text}`.split("\ndiff --git ").slice(1).map(read);

function read(part: string): FilePatch {
  const at = part.indexOf("\n@@ ");
  const head = (at < 0 ? part : part.slice(0, at)).split("\n");
  const body = at < 0 ? "" : part.slice(at + 1);
  const after = (start: string): string | null => {
    const line = head.slice(1).find((each) => each.startsWith(start));
    return line === undefined ? null : line.slice(start.length);
  };
  const from = after("rename from ") ?? after("copy from ");
  const to = after("rename to ") ?? after("copy to ");
  const [oldSide, newSide] = [side(after("--- ")), side(after("+++ "))];
  const path = to !== null ? unquoted(to) : (newSide ?? oldSide ?? headed(head[0] ?? ""));
  const modes = [after("old mode "), after("new mode ")];
  const notes = [];
  if (modes[0] && modes[1]) notes.push(`mode ${modes[0]} → ${modes[1]}`);
  return {
    path,
    oldPath: from === null ? null : unquoted(from),
    kind: kindOf(after, to !== null),
    notes,
    binary: after("Binary files ") !== null || after("GIT binary patch") !== null,
    body,
    lines: count(body),
  };
}

function kindOf(after: (start: string) => string | null, moved: boolean): FilePatch["kind"] {
  if (moved) return after("copy to ") === null ? "renamed" : "copied";
  if (after("new file mode ") !== null) return "added";
  return after("deleted file mode ") === null ? "changed" : "deleted";
}

/** The name behind `---` or `+++`; none of a file that is not there. */
function side(name: string | null): string | null {
  if (name === null || name === "/dev/null") return null;
  return unquoted(name.replace(/\t$/, "")).slice(2);
}

/** `a/NAME b/NAME`, where nothing else says the name: it is the same twice. */
function headed(line: string): string {
  if (line.startsWith('"')) return unquoted(/^"(?:[^"\\]|\\.)*"/.exec(line)?.[0] ?? line).slice(2);
  return line.slice(2, (line.length - 1) / 2);
}

const ESCAPES: Record<string, number> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 };

/** A name in quotes holds what a line cannot, as in C, byte by byte. */
export function unquoted(name: string): string {
  if (!/^".*"$/s.test(name)) return name;
  const parts = name.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|([^\\]+)/gs);
  const bytes = [...parts].flatMap(([, octal, escape, plain]) => {
    if (octal !== undefined) return [Number.parseInt(octal, 8)];
    if (escape !== undefined) return [ESCAPES[escape] ?? escape.charCodeAt(0)];
    return [...new TextEncoder().encode(plain)];
  });
  return new TextDecoder().decode(new Uint8Array(bytes));
}

function count(text: string): number {
  let lines = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines++;
  return text === "" || text.endsWith("\n") ? lines : lines + 1;
}

/** The lines of a file's part of the diff, with their numbers. */
export function hunksOf(body: string): Hunk[] {
  const hunks: Hunk[] = [];
  let old = 0;
  let now = 0;
  for (const line of body.split("\n")) {
    const head = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?([^]*)$/.exec(line);
    const last = hunks.at(-1);
    if (head) {
      [old, now] = [Number(head[1]), Number(head[2])];
      hunks.push({ place: head[3] ?? "", lines: [] });
    } else if (!last || line === "") continue;
    else if (line.startsWith("\\")) last.lines.push({ sign: " ", text: line, old: null, now: null });
    else {
      const sign = line[0] as Line["sign"];
      last.lines.push({ sign, text: line.slice(1), old: sign === "+" ? null : old++, now: sign === "-" ? null : now++ });
    }
  }
  return hunks;
}

/** A line as it is shown: of one that is very long, the beginning. */
export function shortened(text: string): [string, number] {
  const plain = text.endsWith("\r") ? text.slice(0, -1) : text; // the file's way to end a line
  return plain.length > LINE_MOST ? [plain.slice(0, LINE_MOST), plain.length - LINE_MOST] : [plain, 0];
}
