// Where findings are placed on the diff of a round.

import type { Finding, FindingState, Review, Round, Severity } from "../daemon/wire.ts";
import type { FilePatch, Hunk, PatchLine } from "./patch.ts";

export const SEVERITIES: readonly Severity[] = ["critical", "high", "medium", "low", "info"];
export const STATES: readonly FindingState[] = ["open", "fixed", "withdrawn"];

/** The most severe first; equal ones in the order in which they were found. */
export const bySeverity = (findings: readonly Finding[]): Finding[] =>
  [...findings].sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));

export interface PlacedFinding {
  finding: Finding;
  line: number | null; // null: at the top of the file
}

export interface Placement {
  byPath: ReadonlyMap<string, readonly PlacedFinding[]>;
  unplaced: readonly PlacedFinding[]; // they name no file of the diff
}

type PatchPaths = Pick<FilePatch, "path" | "oldPath">;
type HunksIn = (round: number, path: string) => readonly Hunk[]; // of that round's diff, if it is loaded

/** What was found up to a round, and was not settled before it. */
export const findingsOfRound = (review: Review, round: number): Finding[] =>
  bySeverity(review.findings.filter((each) => each.round <= round && (each.state === "open" || each.state_round >= round)));

/** The earlier rounds whose diffs are needed to find the current lines of their findings. */
export const roundsToCompare = (review: Review, round: number): number[] => [
  ...new Set(findingsOfRound(review, round).flatMap((each) => (each.round < round && each.line !== null ? [each.round] : []))),
];

/** A finding's line is that of the file in the round that found it. When the file has changed since, the line is searched. */
export function placeFindings(review: Review, round: number, patches: readonly PatchPaths[], hunksIn: HunksIn): Placement {
  const byPath = new Map<string, PlacedFinding[]>();
  const unplaced: PlacedFinding[] = [];
  for (const finding of findingsOfRound(review, round)) {
    const patch = patchFor(finding, review.cwd, patches);
    if (!patch) {
      unplaced.push({ finding, line: null });
      continue;
    }
    const { path } = patch;
    const changed = finding.line !== null && review.rounds.some((each) => hasChanged(each, finding, round, patch));
    const line = changed ? findMovedLine(hunksIn(finding.round, path), finding.line ?? 0, hunksIn(round, path)) : finding.line;
    byPath.set(path, [...(byPath.get(path) ?? []), { finding, line }]);
  }
  return { byPath, unplaced };
}

function patchFor({ file }: Finding, repository: string, patches: readonly PatchPaths[]): PatchPaths | null {
  if (file === null) return null;
  const path = relativePath(file, repository);
  return patches.find((each) => each.path === path) ?? patches.find((each) => each.oldPath === path) ?? null;
}

/** Whether the finding's file changed in `each` round, after the finding was made and up to the shown round. */
const hasChanged = (each: Round, finding: Finding, shownRound: number, { path, oldPath }: PatchPaths): boolean =>
  each.round > finding.round &&
  each.round <= shownRound &&
  each.changed_since.some((name) => name === path || name === oldPath || name === finding.file);

const NEARBY_LINES = 3; // compared where the same line occurs several times

/** The number of the same line in a later diff. Null when it is not there, or when several lines fit equally well. */
export function findMovedLine(before: readonly Hunk[], line: number, after: readonly Hunk[]): number | null {
  const oldLines = currentLines(before);
  const newLines = currentLines(after);
  const at = oldLines.findIndex((each) => each.newLine === line);
  const text = oldLines[at]?.text;
  if (text === undefined || !text.trim()) return null;
  const similarity = (index: number): number => {
    let same = 0;
    for (let by = -NEARBY_LINES; by <= NEARBY_LINES; by++) {
      const neighbour = oldLines[at + by]?.text;
      if (neighbour !== undefined && neighbour === newLines[index + by]?.text) same++;
    }
    return same;
  };
  const candidates = newLines.flatMap((each, index) =>
    each.text === text ? [{ line: each.newLine, same: similarity(index) }] : [],
  );
  const best = Math.max(...candidates.map(({ same }) => same));
  const found = candidates.filter(({ same }) => same === best);
  return found.length === 1 ? (found[0]?.line ?? null) : null;
}

/** The lines of a diff that are in the new file. */
const currentLines = (hunks: readonly Hunk[]): PatchLine[] =>
  hunks.flatMap((hunk) => hunk.lines.filter((line) => line.newLine !== null));

/** Models usually name a file by its path in the repository, but some use the absolute path or a leading `./`. */
function relativePath(file: string, repository: string): string {
  const below = file.startsWith(`${repository}/`) ? file.slice(repository.length + 1) : file;
  return below.replace(/^\.\//, "");
}

/** The findings by the line that the diff shows; those whose line it does not show are at the top of the file. */
export function splitByLine(
  hunks: readonly Hunk[],
  findings: readonly PlacedFinding[],
): { atTop: PlacedFinding[]; byLine: Map<number, PlacedFinding[]> } {
  const shown = new Set(currentLines(hunks).map((line) => line.newLine));
  const byLine = new Map<number, PlacedFinding[]>();
  const atTop: PlacedFinding[] = [];
  for (const each of findings) {
    if (each.line === null || !shown.has(each.line)) atTop.push(each);
    else byLine.set(each.line, [...(byLine.get(each.line) ?? []), each]);
  }
  return { atTop, byLine };
}
