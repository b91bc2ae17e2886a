// Reads a diff in git's format. It is split into files at once; the lines of a file are read when it is shown.

import type { Line } from "../tools/edits.ts";

/** The part of a diff about one file. A file whose type changed has two: it is deleted and added again. */
export interface FilePatch {
  path: string; // the new path, or the old one of a deleted file
  oldPath: string | null; // of a renamed or copied file
  kind: "changed" | "added" | "deleted" | "renamed" | "copied";
  notes: string[]; // changes other than lines, such as the mode
  binary: boolean;
  body: string; // the hunks as text
  lines: number; // in the body
}

export interface PatchLine extends Line {
  oldLine: number | null; // its number in the old file
  newLine: number | null; // its number in the new file
}

export interface Hunk {
  context: string; // the function or heading that git names
  lines: PatchLine[];
}

const MAX_LINE_CHARS = 1000;

/** Lines of a file start with a sign, so a line that starts with `diff --git` is git's own. Lines end only at newlines. */
export const splitDiff = (text: string): FilePatch[] => `\n${text}`.split("\ndiff --git ").slice(1).map(readFile);

function readFile(part: string): FilePatch {
  const at = part.indexOf("\n@@ ");
  const head = (at < 0 ? part : part.slice(0, at)).split("\n");
  const body = at < 0 ? "" : part.slice(at + 1);
  const header = (start: string): string | null => {
    const line = head.slice(1).find((each) => each.startsWith(start));
    return line === undefined ? null : line.slice(start.length);
  };
  const from = header("rename from ") ?? header("copy from ");
  const to = header("rename to ") ?? header("copy to ");
  const [oldName, newName] = [fileName(header("--- ")), fileName(header("+++ "))];
  const path = to !== null ? unquoted(to) : (newName ?? oldName ?? nameInFirstLine(head[0] ?? ""));
  const modes = [header("old mode "), header("new mode ")];
  const notes = [];
  if (modes[0] && modes[1]) notes.push(`mode ${modes[0]} → ${modes[1]}`);
  return {
    path,
    oldPath: from === null ? null : unquoted(from),
    kind: kindOf(header, to !== null),
    notes,
    binary: header("Binary files ") !== null || header("GIT binary patch") !== null,
    body,
    lines: countLines(body),
  };
}

function kindOf(header: (start: string) => string | null, moved: boolean): FilePatch["kind"] {
  if (moved) return header("copy to ") === null ? "renamed" : "copied";
  if (header("new file mode ") !== null) return "added";
  return header("deleted file mode ") === null ? "changed" : "deleted";
}

/** The name after `---` or `+++`; null when the file does not exist on that side. */
function fileName(name: string | null): string | null {
  if (name === null || name === "/dev/null") return null;
  return unquoted(name.replace(/\t$/, "")).slice(2);
}

/** The name in `a/NAME b/NAME`, for a diff without any other: both are the same. */
function nameInFirstLine(line: string): string {
  if (line.startsWith('"')) return unquoted(/^"(?:[^"\\]|\\.)*"/.exec(line)?.[0] ?? line).slice(2);
  return line.slice(2, (line.length - 1) / 2);
}

const ESCAPES: Record<string, number> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 };

/** Git quotes names with special characters as C does, byte by byte. */
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

function countLines(text: string): number {
  let lines = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines++;
  return text === "" || text.endsWith("\n") ? lines : lines + 1;
}

/** The hunks of a file, with the numbers of their lines. */
export function hunksOf(body: string): Hunk[] {
  const hunks: Hunk[] = [];
  let oldLine = 0;
  let newLine = 0;
  for (const line of body.split("\n")) {
    const head = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?([^]*)$/.exec(line);
    const last = hunks.at(-1);
    if (head) {
      [oldLine, newLine] = [Number(head[1]), Number(head[2])];
      hunks.push({ context: head[3] ?? "", lines: [] });
    } else if (!last || line === "") continue;
    else if (line.startsWith("\\")) last.lines.push({ sign: " ", text: line, oldLine: null, newLine: null });
    else {
      const sign = line[0] as Line["sign"];
      last.lines.push({
        sign,
        text: line.slice(1),
        oldLine: sign === "+" ? null : oldLine++,
        newLine: sign === "-" ? null : newLine++,
      });
    }
  }
  return hunks;
}

/** The start of a very long line, and the number of characters left out. */
export function shortenLine(text: string): [string, number] {
  const plain = text.endsWith("\r") ? text.slice(0, -1) : text; // a line ending of Windows
  return plain.length > MAX_LINE_CHARS ? [plain.slice(0, MAX_LINE_CHARS), plain.length - MAX_LINE_CHARS] : [plain, 0];
}
