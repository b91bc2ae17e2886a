// The summary of a tool call on one line, and its file edits as small diffs. Tools are recognised by the shape of their
// input rather than by name, because every agent has its own names.

export interface Edit {
  path: string;
  kind: "add" | "change" | "delete";
  hunks: Line[][];
  note?: string; // what to know of the diff
}

export interface Line {
  sign: " " | "+" | "-";
  text: string;
}

type Input = Record<string, unknown>;

const str = (value: unknown): string => (typeof value === "string" ? value : "");
const list = (value: unknown): Input[] =>
  Array.isArray(value) ? value.filter((each) => each !== null && typeof each === "object") : [];

/** Fields that describe a call, the most informative first. */
const MAIN_FIELDS = [
  ...["command", "file_path", "notebook_path", "changes", "pattern"],
  ...["url", "query", "path", "description", "prompt"],
];

/** The name of the most informative field. */
export function mainField(input: Input): string | null {
  const hasText = (name: string): boolean => Boolean(fieldText(name, input[name]));
  return MAIN_FIELDS.find((name) => Object.hasOwn(input, name) && hasText(name)) ?? Object.keys(input).find(hasText) ?? null;
}

function fieldText(name: string, value: unknown): string {
  if (name === "command" && Array.isArray(value)) return value.map(str).join(" ").trim();
  if (name === "changes") return list(value).map((change) => str(change.path)).filter(Boolean).join(", ");
  if (name === "questions") return str(list(value)[0]?.question);
  return str(value).trim();
}

/** The most informative field, on one line. */
export function mainArgument(input: Input): string {
  const name = mainField(input);
  return name === null ? "" : fieldText(name, input[name]).replace(/\s+/g, " ").trim();
}

/** The file edits of a call, as far as its input shows them. */
export function editsOf(input: Input): Edit[] {
  const path = str(input.file_path) || str(input.notebook_path);
  if (path && Array.isArray(input.edits)) {
    const hunks = list(input.edits).map((each) => diffLines(str(each.old_string), str(each.new_string)));
    return [{ path, kind: "change", hunks }];
  }
  if (path && typeof input.old_string === "string" && typeof input.new_string === "string") {
    const kind = input.old_string === "" ? "add" : "change";
    return [{ path, kind, hunks: [diffLines(input.old_string, input.new_string)] }];
  }
  if (path && typeof input.content === "string") {
    return [{ path, kind: "add", hunks: [lines(input.content).map((text) => ({ sign: "+", text }))] }];
  }
  const changes: unknown[] = Array.isArray(input.changes) ? input.changes : [];
  if (!list(changes).some((change) => str(change.path))) return [];
  return changes.map(editOf);
}

/** A change that names no file is shown as raw JSON, because it is a part of the call as well. */
function editOf(change: unknown): Edit {
  const [known] = list([change]);
  const path = str(known?.path);
  if (known && path) return { path, kind: kindOf(known.kind), hunks: hunksOf(known) };
  const raw = JSON.stringify(change, null, 2) ?? "";
  return { path: "(names no file)", kind: "change", hunks: [lines(raw).map((text) => ({ sign: " ", text }))] };
}

/** The fields that the diffs show completely; all others must be shown beside them. */
export function fieldsInDiffs(input: Input): ReadonlySet<string> {
  const path = ["file_path", "notebook_path"].find((name) => str(input[name]));
  if (!path) return new Set();
  if (Array.isArray(input.edits)) return new Set(input.edits.every(isPlainEdit) ? [path, "edits"] : [path]);
  if (typeof input.old_string === "string" && typeof input.new_string === "string") {
    return new Set([path, "old_string", "new_string"]);
  }
  return new Set(typeof input.content === "string" ? [path, "content"] : []);
}

/** An edit that a diff shows completely. */
function isPlainEdit(each: unknown): boolean {
  const [edit] = list([each]);
  const texts = edit && typeof edit.old_string === "string" && typeof edit.new_string === "string";
  return Boolean(texts) && Object.keys(edit ?? {}).length === 2;
}

function kindOf(kind: unknown): Edit["kind"] {
  const name = str(kind) || str((kind as { type?: unknown } | null)?.type);
  return name === "add" || name === "delete" ? name : "change";
}

/** The hunks of a unified diff, or a whole file as added or deleted lines. */
function hunksOf(change: Input): Line[][] {
  const diff = str(change.diff) || str(change.unified_diff);
  if (!diff) {
    const content = str(change.content);
    const sign = kindOf(change.kind) === "delete" ? "-" : "+";
    return content ? [lines(content).map((text) => ({ sign, text }) as Line)] : [];
  }
  const hunks: Line[][] = [];
  for (const line of lines(diff)) {
    // In a hunk, a line that looks like a header is a line of the file.
    if (hunks.length === 0 && /^(---|\+\+\+|diff |index )/.test(line)) continue;
    if (line.startsWith("@@")) hunks.push([]);
    else if (/^[ +-]/.test(line)) {
      if (hunks.length === 0) hunks.push([]);
      hunks.at(-1)?.push({ sign: line[0] as Line["sign"], text: line.slice(1) });
    }
  }
  return hunks.filter((hunk) => hunk.length > 0);
}

const lines = (text: string): string[] => {
  const all = text.split("\n");
  if (all.at(-1) === "") all.pop();
  return all;
};

const MAX_COMPARED_LINES = 400; // on each side: the table below grows with the product of both

/** Removed, added and common lines, by the longest common subsequence, with three common lines before and after. */
export function diffLines(before: string, after: string): Line[] {
  const a = lines(before);
  const b = lines(after);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const kept = (text: string): Line => ({ sign: " ", text });
  return [
    ...a.slice(0, head).slice(-3).map(kept),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).slice(0, 3).map(kept),
  ];
}

function middle(a: string[], b: string[]): Line[] {
  const minus = (text: string): Line => ({ sign: "-", text });
  const plus = (text: string): Line => ({ sign: "+", text });
  if (a.length > MAX_COMPARED_LINES || b.length > MAX_COMPARED_LINES) return [...a.map(minus), ...b.map(plus)];
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  const at = (i: number, j: number): number => table[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const out: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push({ sign: " ", text: a[i] ?? "" });
      i++;
      j++;
    } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) {
      out.push(minus(a[i++] ?? ""));
    } else {
      out.push(plus(b[j++] ?? ""));
    }
  }
  return out;
}

export function lineCounts(edits: readonly Edit[]): { added: number; removed: number } {
  const all = edits.flatMap((edit) => edit.hunks.flat());
  return {
    added: all.filter((line) => line.sign === "+").length,
    removed: all.filter((line) => line.sign === "-").length,
  };
}
