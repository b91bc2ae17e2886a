// Findings: in which order, in which state, and where on a diff they are shown.

import type { FilePatch, Hunk, PatchLine } from "./patch.ts";
import type { Finding, FindingState, Review, Round, Severity } from "./wire.ts";

export const SEVERITIES: readonly Severity[] = ["critical", "high", "medium", "low", "info"];
export const STATES: readonly FindingState[] = ["open", "fixed", "withdrawn"];

/** The gravest first, then as they were found. */
export const byGravity = (findings: readonly Finding[]): Finding[] =>
  [...findings].sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));

export const counted = (findings: readonly Finding[]): Record<FindingState, number> => ({
  open: findings.filter((each) => each.state === "open").length,
  fixed: findings.filter((each) => each.state === "fixed").length,
  withdrawn: findings.filter((each) => each.state === "withdrawn").length,
});

/** Where a finding stands in a round's diff. */
export interface Placed {
  finding: Finding;
  line: number | null; // null: at the file's head
}

export interface Placement {
  byPath: ReadonlyMap<string, readonly Placed[]>;
  loose: readonly Placed[]; // no file of the diff is named
}

type Named = Pick<FilePatch, "path" | "oldPath">;
type Lines = (round: number, path: string) => readonly Hunk[]; // of that round's diff, as far as it is known

/** What was found up to a round, and had not been settled before it. */
export const onRound = (review: Review, round: number): Finding[] =>
  byGravity(review.findings.filter((each) => each.round <= round && (each.state === "open" || each.state_round >= round)));

/** The earlier rounds whose diffs tell where their findings are by now. */
export const origins = (review: Review, round: number): number[] => [
  ...new Set(onRound(review, round).flatMap((each) => (each.round < round && each.line !== null ? [each.round] : []))),
];

/** A line is one of the file as it was when the finding was made: when the file has changed since, it is looked for. */
export function placed(review: Review, round: number, patches: readonly Named[], lines: Lines): Placement {
  const byPath = new Map<string, Placed[]>();
  const loose: Placed[] = [];
  for (const finding of onRound(review, round)) {
    const patch = patchOf(finding, review.cwd, patches);
    if (!patch) {
      loose.push({ finding, line: null });
      continue;
    }
    const { path } = patch;
    const stands = finding.line === null || !review.rounds.some((each) => moved(each, finding, round, patch));
    const line = stands ? finding.line : movedTo(lines(finding.round, path), finding.line ?? 0, lines(round, path));
    byPath.set(path, [...(byPath.get(path) ?? []), { finding, line }]);
  }
  return { byPath, loose };
}

function patchOf({ file }: Finding, top: string, patches: readonly Named[]): Named | null {
  if (file === null) return null;
  const named = plainPath(file, top);
  return patches.find((each) => each.path === named) ?? patches.find((each) => each.oldPath === named) ?? null;
}

const moved = (each: Round, finding: Finding, round: number, { path, oldPath }: Named): boolean =>
  each.round > finding.round &&
  each.round <= round &&
  each.changed_since.some((name) => name === path || name === oldPath || name === finding.file);

const NEARBY = 3; // lines around it that are compared where the same line stands in several places

/** The same line in a later diff. Null where it is not there, or where it could be one of several. */
export function movedTo(before: readonly Hunk[], line: number, after: readonly Hunk[]): number | null {
  const [was, now] = [standing(before), standing(after)];
  const at = was.findIndex((each) => each.now === line);
  const text = was[at]?.text;
  if (text === undefined || !text.trim()) return null;
  const likeness = (place: number): number => {
    let same = 0;
    for (let by = -NEARBY; by <= NEARBY; by++) {
      const beside = was[at + by]?.text;
      if (beside !== undefined && beside === now[place + by]?.text) same++;
    }
    return same;
  };
  const places = now.flatMap((each, place) => (each.text === text ? [{ line: each.now, same: likeness(place) }] : []));
  const best = Math.max(...places.map(({ same }) => same));
  const found = places.filter(({ same }) => same === best);
  return found.length === 1 ? (found[0]?.line ?? null) : null;
}

/** The lines that are in the file now. */
const standing = (hunks: readonly Hunk[]): PatchLine[] =>
  hunks.flatMap((hunk) => hunk.lines.filter((line) => line.now !== null));

/** Models name a file by its path in the repository, mostly; some in full, or as the diff has it. */
function plainPath(file: string, top: string): string {
  const below = file.startsWith(`${top}/`) ? file.slice(top.length + 1) : file;
  return below.replace(/^\.\//, "");
}

/** Those whose line the diff shows, by it; the others stand at the file's head. */
export function onLines(hunks: readonly Hunk[], all: readonly Placed[]): { atHead: Placed[]; byLine: Map<number, Placed[]> } {
  const shown = new Set(hunks.flatMap((hunk) => hunk.lines.flatMap((line) => (line.now === null ? [] : [line.now]))));
  const byLine = new Map<number, Placed[]>();
  const atHead: Placed[] = [];
  for (const each of all) {
    if (each.line === null || !shown.has(each.line)) atHead.push(each);
    else byLine.set(each.line, [...(byLine.get(each.line) ?? []), each]);
  }
  return { atHead, byLine };
}
