// The diff of a round, file by file, with the findings on their lines. Lines far from the viewport are one plain text, and
// very long files are folded.

import { memo } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { FileChange, Review, Round } from "../daemon/wire.ts";
import { plural } from "../text/format.ts";
import { visible, visibleLine } from "../text/visible.ts";
import { ErrorBoundary } from "../ui/ErrorBoundary.tsx";
import { Caret } from "../ui/icons.tsx";
import { LoadError } from "../ui/LoadError.tsx";
import { useNearViewport } from "../ui/viewport.ts";
import { useDiff, usePlacement } from "./diffs.ts";
import { FindingCard, matches, type Filter, type Target } from "./Findings.tsx";
import { hunksOf, shortenLine, type FilePatch, type Hunk, type PatchLine } from "./patch.ts";
import { splitByLine, type PlacedFinding } from "./placement.ts";

const MAX_OPEN_FILE_LINES = 500; // a longer file is folded
const MAX_OPEN_LINES = 3000; // of all files that are open at first
const FILES_PER_PAGE = 300;
const CHUNK_LINES = 120; // lines that are rendered together

interface Props {
  review: Review;
  round: Round;
  filter: Filter;
  target: Target | null;
}

export function DiffView({ review, round, filter, target }: Props) {
  const { patches, problem, retry } = useDiff(review.id, round.round);
  const [maxFiles, setMaxFiles] = useState(FILES_PER_PAGE);
  const { byPath, unplaced } = usePlacement(review, round.round, patches);
  const open = useMemo(() => initiallyOpen(patches ?? []), [patches]);
  const matching = (findings: readonly PlacedFinding[] = []): PlacedFinding[] =>
    findings.filter(({ finding }) => matches(filter, finding));
  return (
    <section class="patch" data-testid="patch" data-round={round.round} aria-label={`Diff of round ${round.round}`}>
      <div class="section-head">
        <h2>Diff of round {round.round}</h2>
        <span class="muted">{patches && plural(patches.length, "file")}</span>
      </div>
      {problem && <LoadError problem={problem} retry={retry} />}
      {!patches && !problem && (
        <p class="note plain" role="status">
          Loading the diff…
        </p>
      )}
      {patches?.length === 0 && (
        <p class="note plain">{review.imported_from ? "Imported rounds have no diff." : "This round has no differences."}</p>
      )}
      {patches && matching(unplaced).map((each) => <FindingCard key={each.finding.id} placed={each} target={target} />)}
      {patches?.slice(0, maxFiles).map((patch, index) => (
        <ErrorBoundary key={`${round.round}-${index}`} resetKey={patch} raw={patch.body.slice(0, 10_000)}>
          <PatchFile
            patch={patch}
            change={round.files.find((each) => each.path === patch.path) ?? null}
            findings={matching(byPath.get(patch.path))}
            initiallyOpen={open.has(index)}
            target={target}
          />
        </ErrorBoundary>
      ))}
      {patches && patches.length > maxFiles && (
        <button class="quiet earlier" type="button" onClick={() => setMaxFiles(maxFiles + FILES_PER_PAGE)}>
          {plural(patches.length - maxFiles, "more file")}
        </button>
      )}
    </section>
  );
}

/** The files that are open at first: the short ones, up to a number of lines in all. */
function initiallyOpen(patches: readonly FilePatch[]): ReadonlySet<number> {
  const open = new Set<number>();
  let left = MAX_OPEN_LINES;
  patches.forEach(({ lines }, index) => {
    if (lines > MAX_OPEN_FILE_LINES || lines > left) return;
    left -= lines;
    open.add(index);
  });
  return open;
}

interface PatchFileProps {
  patch: FilePatch;
  change: FileChange | null;
  findings: PlacedFinding[];
  initiallyOpen: boolean;
  target: Target | null;
}

function PatchFile({ patch, change, findings, initiallyOpen, target }: PatchFileProps) {
  const [open, setOpen] = useState(initiallyOpen);
  const ownTarget = target && findings.some(({ finding }) => finding.id === target.id) ? target : null;
  const hasFindings = findings.length > 0;
  useEffect(() => {
    if (ownTarget || hasFindings) setOpen(true);
  }, [ownTarget, hasFindings]);
  return (
    <details
      class="fold patch-file"
      data-testid="patch-file"
      open={open}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>
        <Caret size={12} />
        <PatchName patch={patch} />
        {change?.left_out && (
          <span class="tag" title="Its diff was too long for the prompt; the reviewer was told to read the file itself">
            {change.left_out === "cut" ? "shown in part" : "not shown"} to the reviewer
          </span>
        )}
        {hasFindings && <span class="tag">{plural(findings.length, "finding")}</span>}
        {change && change.added !== null && (
          <span class="tool-size">
            <ins>+{change.added}</ins> <del>−{change.removed}</del>
          </span>
        )}
      </summary>
      {open && <PatchBody patch={patch} findings={findings} target={ownTarget} />}
    </details>
  );
}

const PatchName = ({ patch }: { patch: FilePatch }) => (
  <span class="patch-name">
    {patch.oldPath !== null && (
      <>
        <bdi class="muted">{visible(patch.oldPath)}</bdi> →{" "}
      </>
    )}
    <bdi>{visible(patch.path)}</bdi> {patch.kind !== "changed" && <em>{patch.kind}</em>}
  </span>
);

function PatchBody({ patch, findings, target }: { patch: FilePatch; findings: PlacedFinding[]; target: Target | null }) {
  const hunks = useMemo(() => hunksOf(patch.body), [patch]);
  const { atTop, byLine } = splitByLine(hunks, findings);
  const notes = [...patch.notes, hunks.length === 0 ? whyNoLines(patch) : ""].filter(Boolean);
  return (
    <div class="patch-body">
      {notes.map((note) => (
        <p key={note} class="note plain">
          {note}
        </p>
      ))}
      {atTop.map((each) => (
        <FindingCard key={each.finding.id} placed={{ ...each, line: null }} target={target} />
      ))}
      {hunks.map((hunk, index) => (
        <HunkView key={index} hunk={hunk} first={index === 0} byLine={byLine} target={target} />
      ))}
    </div>
  );
}

function whyNoLines(patch: FilePatch): string {
  if (patch.binary) return "A binary or very large file: its lines are not compared.";
  if (patch.kind === "renamed" || patch.kind === "copied") return "Its lines are the same.";
  return patch.notes.length > 0 ? "" : "An empty file.";
}

interface FindingsByLine {
  byLine: ReadonlyMap<number, PlacedFinding[]>;
  target: Target | null;
}

const findingsAt = ({ newLine }: PatchLine, byLine: FindingsByLine["byLine"]): PlacedFinding[] =>
  newLine === null ? [] : (byLine.get(newLine) ?? []);

function HunkView({ hunk, first, byLine, target }: FindingsByLine & { hunk: Hunk; first: boolean }) {
  const chunks = useMemo(() => chunked(hunk.lines), [hunk]);
  return (
    <div class="hunk">
      {(hunk.context || !first) && <p class="hunk-context">{visibleLine(hunk.context) || "…"}</p>}
      {chunks.map((lines, index) =>
        lines.some((line) => findingsAt(line, byLine).length > 0) ? (
          <Lines key={index} lines={lines} byLine={byLine} target={target} />
        ) : (
          <Chunk key={index} lines={lines} />
        ),
      )}
    </div>
  );
}

function chunked(lines: readonly PatchLine[]): PatchLine[][] {
  const chunks: PatchLine[][] = [];
  for (let at = 0; at < lines.length; at += CHUNK_LINES) chunks.push(lines.slice(at, at + CHUNK_LINES));
  return chunks;
}

const NO_FINDINGS: ReadonlyMap<number, PlacedFinding[]> = new Map();
const LINE_PX = 19;

/** Far from the viewport, one text stands for all lines: find-in-page finds it, and it is cheap to render. */
const Chunk = memo(({ lines }: { lines: PatchLine[] }) => {
  const ref = useRef<HTMLDivElement>(null);
  const near = useNearViewport(ref);
  return (
    <div class="chunk" ref={ref} style={{ containIntrinsicSize: `auto ${lines.length * LINE_PX}px` }}>
      {near ? (
        <Lines lines={lines} byLine={NO_FINDINGS} target={null} />
      ) : (
        <pre>{lines.map((line) => line.sign + visible(shortenLine(line.text)[0])).join("\n")}</pre>
      )}
    </div>
  );
});

const Lines = ({ lines, byLine, target }: FindingsByLine & { lines: PatchLine[] }) => (
  <>
    {lines.flatMap((line, index) => [
      <Line key={index} line={line} />,
      ...findingsAt(line, byLine).map((each) => <FindingCard key={each.finding.id} placed={each} target={target} />),
    ])}
  </>
);

const LINE_CLASSES: Record<PatchLine["sign"], string> = { "+": "line added", "-": "line removed", " ": "line" };

function Line({ line }: { line: PatchLine }) {
  const [text, leftOut] = shortenLine(line.text);
  return (
    <div class={LINE_CLASSES[line.sign]}>
      <span class="no old">{line.oldLine}</span>
      <span class="no">{line.newLine}</span>
      <code>
        {line.sign}
        {visible(text)}
        {leftOut > 0 && <em> {plural(leftOut, "more character")}</em>}
      </code>
    </div>
  );
}
