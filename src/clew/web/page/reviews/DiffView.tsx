// The diff of a round, file by file, with the findings on their lines. A long one is drawn where the reader is; what is
// far away stands there as plain text, and very long files are folded.

import { memo } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { FindingCard, fits, type Filter, type Target } from "./Findings.tsx";
import { onLines, origins, placed, type Placed, type Placement } from "./findings.ts";
import { Guard } from "./Guard.tsx";
import { http, Problem } from "./http.ts";
import { Caret } from "./icons.tsx";
import { useNear } from "./near.ts";
import { hunksOf, patchesOf, shortened, type FilePatch, type Hunk, type PatchLine } from "./patch.ts";
import { Trouble } from "./Reviews.tsx";
import { visible, visibleLine } from "./visible.ts";
import type { FileChange, Review, Round } from "./wire.ts";
import { plural } from "./words.ts";

const FILE_OPEN = 500; // lines of a file: a longer one is folded
const ALL_OPEN = 3000; // lines of all that are open from the beginning
const FILES_SHOWN = 300;
const CHUNK = 120; // lines that are drawn together

interface Looking {
  review: Review;
  round: Round;
  filter: Filter;
  target: Target | null;
}

export function PatchView({ review, round, filter, target }: Looking) {
  const { patches, problem, again } = useDiff(review.id, round.round);
  const [most, setMost] = useState(FILES_SHOWN);
  const places = usePlaces(review, round.round, patches);
  const open = useMemo(() => openFirst(patches ?? []), [patches]);
  const chosen = (some: readonly Placed[] | undefined): Placed[] => (some ?? []).filter(({ finding }) => fits(filter, finding));
  return (
    <section class="patch" data-testid="patch" data-round={round.round} aria-label={`Diff of round ${round.round}`}>
      <div class="section-head">
        <h2>Diff of round {round.round}</h2>
        <span class="muted">{patches && plural(patches.length, "file")}</span>
      </div>
      {problem && <Trouble problem={problem} again={again} />}
      {!patches && !problem && (
        <p class="note plain" role="status">
          Reading the diff…
        </p>
      )}
      {patches?.length === 0 && (
        <p class="note plain">{review.imported_from ? "Of an imported round no diff is kept." : "Nothing differed in this round."}</p>
      )}
      {patches && chosen(places.loose).map((each) => <FindingCard key={each.finding.id} placed={each} target={target} />)}
      {patches?.slice(0, most).map((patch, index) => (
        <Guard key={`${round.round}-${index}`} of={patch} raw={patch.body.slice(0, 10_000)}>
          <PatchFile
            patch={patch}
            change={round.files.find((each) => each.path === patch.path) ?? null}
            places={chosen(places.byPath.get(patch.path))}
            opened={open.has(index)}
            target={target}
          />
        </Guard>
      ))}
      {patches && patches.length > most && (
        <button class="quiet earlier" type="button" onClick={() => setMost(most + FILES_SHOWN)}>
          {plural(patches.length - most, "more file")}
        </button>
      )}
    </section>
  );
}

/** A round's diff never changes: the last ones are kept. */
const kept = new Map<string, FilePatch[]>();
const KEPT_MOST = 8;

async function diffOf(id: string, round: number): Promise<FilePatch[]> {
  const key = `${id}/${round}`;
  const patches = kept.get(key) ?? patchesOf(await http.diff(id, round));
  kept.delete(key); // what was used last is the last to go
  kept.set(key, patches);
  for (const old of [...kept.keys()].slice(0, -KEPT_MOST)) kept.delete(old);
  return patches;
}

function useDiff(id: string, round: number): { patches: FilePatch[] | null; problem: Problem | null; again: () => void } {
  const [patches, come] = useState<FilePatch[] | null>(kept.get(`${id}/${round}`) ?? null);
  const [problem, fail] = useState<Problem | null>(null);
  const [tries, again] = useState(0);
  useEffect(() => {
    let wanted = true;
    diffOf(id, round).then(
      (found) => wanted && come(found),
      (failed: unknown) => wanted && failed instanceof Problem && fail(failed),
    );
    return () => {
      wanted = false;
    };
  }, [tries]);
  const retry = (): void => {
    fail(null);
    again(tries + 1);
  };
  return { patches, problem, again: retry };
}

/** Where the findings stand: those of earlier rounds as soon as those rounds' diffs are there. */
function usePlaces(review: Review, round: number, patches: FilePatch[] | null): Placement {
  const [earlier, come] = useState<ReadonlyMap<number, FilePatch[]>>(new Map());
  const wanted = origins(review, round).join();
  useEffect(() => {
    let stays = true;
    const numbers = wanted.split(",").filter(Boolean).map(Number);
    void Promise.all(numbers.map(async (number) => [number, await diffOf(review.id, number)] as const)).then(
      (found) => stays && come(new Map(found)),
      () => undefined, // they stand at their files' heads
    );
    return () => {
      stays = false;
    };
  }, [wanted]);
  return useMemo(() => {
    const lines = (number: number, path: string): Hunk[] => {
      const known = number === round ? patches : earlier.get(number);
      return (known ?? []).filter((each) => each.path === path).flatMap((each) => hunksOf(each.body));
    };
    return placed(review, round, patches ?? [], lines);
  }, [review, round, patches, earlier]);
}

/** The files that are unfolded at first: the short ones, until it gets too much. */
function openFirst(patches: readonly FilePatch[]): ReadonlySet<number> {
  const open = new Set<number>();
  let room = ALL_OPEN;
  patches.forEach(({ lines }, index) => {
    if (lines > FILE_OPEN || lines > room) return;
    room -= lines;
    open.add(index);
  });
  return open;
}

interface OneFile {
  patch: FilePatch;
  change: FileChange | null;
  places: Placed[];
  opened: boolean;
  target: Target | null;
}

function PatchFile({ patch, change, places, opened, target }: OneFile) {
  const [open, toggle] = useState(opened);
  const wanted = target && places.some(({ finding }) => finding.id === target.id) ? target : null;
  const found = places.length > 0;
  useEffect(() => {
    if (wanted || found) toggle(true);
  }, [wanted, found]);
  return (
    <details
      class="fold patch-file"
      data-testid="patch-file"
      open={open}
      onToggle={(event) => toggle(event.currentTarget.open)}
    >
      <summary>
        <Caret size={12} />
        <PatchName patch={patch} />
        {change?.left_out && (
          <span class="tag" title="Its diff was too long for the prompt; the reviewer was told to read the file itself">
            {change.left_out === "cut" ? "shown in part" : "not shown"} to the reviewer
          </span>
        )}
        {found && <span class="tag">{plural(places.length, "finding")}</span>}
        {change && change.added !== null && (
          <span class="tool-size">
            <ins>+{change.added}</ins> <del>−{change.removed}</del>
          </span>
        )}
      </summary>
      {open && <PatchBody patch={patch} places={places} target={wanted} />}
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

function PatchBody({ patch, places, target }: { patch: FilePatch; places: Placed[]; target: Target | null }) {
  const hunks = useMemo(() => hunksOf(patch.body), [patch]);
  const { atHead, byLine } = onLines(hunks, places);
  const words = [...patch.notes, hunks.length === 0 ? wordless(patch) : ""].filter(Boolean);
  return (
    <div class="patch-body">
      {words.map((each) => (
        <p key={each} class="note plain">
          {each}
        </p>
      ))}
      {atHead.map((each) => (
        <FindingCard key={each.finding.id} placed={{ ...each, line: null }} target={target} />
      ))}
      {hunks.map((hunk, index) => (
        <HunkView key={index} hunk={hunk} first={index === 0} byLine={byLine} target={target} />
      ))}
    </div>
  );
}

function wordless(patch: FilePatch): string {
  if (patch.binary) return "A binary or very large file: its lines are not compared.";
  if (patch.kind === "renamed" || patch.kind === "copied") return "Its lines are the same.";
  return patch.notes.length > 0 ? "" : "An empty file.";
}

interface Lined {
  byLine: ReadonlyMap<number, Placed[]>;
  target: Target | null;
}

function HunkView({ hunk, first, byLine, target }: Lined & { hunk: Hunk; first: boolean }) {
  const chunks = useMemo(() => chunked(hunk.lines), [hunk]);
  return (
    <div class="hunk">
      {(hunk.place || !first) && <p class="hunk-place">{visibleLine(hunk.place) || "…"}</p>}
      {chunks.map((lines, index) => {
        const cards = lines.flatMap((line) => (line.now === null ? [] : (byLine.get(line.now) ?? [])));
        return cards.length > 0 ? (
          <Lines key={index} lines={lines} byLine={byLine} target={target} />
        ) : (
          <Chunk key={index} lines={lines} />
        );
      })}
    </div>
  );
}

function chunked(lines: readonly PatchLine[]): PatchLine[][] {
  const chunks: PatchLine[][] = [];
  for (let at = 0; at < lines.length; at += CHUNK) chunks.push(lines.slice(at, at + CHUNK));
  return chunks;
}

const NO_CARDS: ReadonlyMap<number, Placed[]> = new Map();
const LINE_PX = 19;

/** Far from the reader one text stands for all lines: find-in-page finds it, and nothing is drawn. */
const Chunk = memo(({ lines }: { lines: PatchLine[] }) => {
  const ref = useRef<HTMLDivElement>(null);
  const near = useNear(ref);
  return (
    <div class="chunk" ref={ref} style={{ containIntrinsicSize: `auto ${lines.length * LINE_PX}px` }}>
      {near ? (
        <Lines lines={lines} byLine={NO_CARDS} target={null} />
      ) : (
        <pre>{lines.map((line) => line.sign + visible(shortened(line.text)[0])).join("\n")}</pre>
      )}
    </div>
  );
});

const CLASSES: Record<PatchLine["sign"], string> = { "+": "line added", "-": "line removed", " ": "line" };

const Lines = ({ lines, byLine, target }: Lined & { lines: PatchLine[] }) => (
  <>
    {lines.flatMap((line, index) => {
      const cards = line.now === null ? [] : (byLine.get(line.now) ?? []);
      return [
        <OneLine key={index} line={line} />,
        ...cards.map((each) => <FindingCard key={each.finding.id} placed={each} target={target} />),
      ];
    })}
  </>
);

function OneLine({ line }: { line: PatchLine }) {
  const [text, more] = shortened(line.text);
  return (
    <div class={CLASSES[line.sign]}>
      <span class="no old">{line.old}</span>
      <span class="no">{line.now}</span>
      <code>
        {line.sign}
        {visible(text)}
        {more > 0 && <em> {plural(more, "more character")}</em>}
      </code>
    </div>
  );
}
