// How a comparison is arranged: turns that are the same in both threads are folded, the others stand side by side.

import type { ComparedPart, Comparison, FileDifference, PairComparison, TurnDifference } from "../daemon/wire.ts";
import { plural } from "../text/format.ts";

export type Row = { kind: "same"; turns: readonly TurnDifference[] } | { kind: "differs"; turn: TurnDifference };

export function rows(turns: readonly TurnDifference[]): Row[] {
  const found: Row[] = [];
  for (const turn of turns) {
    const last = found.at(-1);
    if (turn.step !== "same") found.push({ kind: "differs", turn });
    else if (last?.kind === "same") found[found.length - 1] = { kind: "same", turns: [...last.turns, turn] };
    else found.push({ kind: "same", turns: [turn] });
  }
  return found;
}

/** The two parts of two pairs, or two threads as one part. */
export const partsOf = (comparison: Comparison | PairComparison): { title: string; part: ComparedPart }[] =>
  "instructor" in comparison
    ? [
        { title: "Instructors", part: comparison.instructor },
        { title: "Workers", part: comparison.worker },
      ]
    : [{ title: "", part: comparison }];

/** What differs, in one line. */
export function summary({ turns, files }: ComparedPart): string {
  const differing = turns.filter((turn) => turn.step !== "same").length;
  const changed = files.filter((file) => file.step !== "same").length;
  if (differing === 0 && changed === 0) return "no known difference";
  const same = turns.length - differing;
  return [
    same > 0 ? `${plural(same, "turn")} the same` : "",
    differing > 0 ? `${plural(differing, "turn")} different` : "",
    changed > 0 ? `${plural(changed, "file")} different` : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

export interface DiffLine {
  sign: "added" | "removed" | "kept";
  text: string;
}

/** A unified diff as hunks of lines. The names of the files, before the first hunk, are left out. */
export function hunks(diff: string): DiffLine[][] {
  const found: DiffLine[][] = [];
  for (const line of diff.replace(/\n$/, "").split("\n")) {
    if (line.startsWith("@@")) found.push([]);
    else found.at(-1)?.push({ sign: line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "kept", text: line });
  }
  return found;
}

export const fileNote = (file: FileDifference): string => {
  switch (file.step) {
    case "same":
      return "the same in both";
    case "changed":
      return "different";
    case "both":
      return "edited in both; what was written is not recorded";
    case "only_a":
      return "only in the first";
    case "only_b":
      return "only in the second";
  }
};
