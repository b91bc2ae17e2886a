// Two threads side by side: what they have in common is folded, where they differ both turns are shown, then the files.

import { useEffect, useState } from "preact/hooks";
import { branchingCalls } from "../daemon/branching.ts";
import { Problem } from "../daemon/http.ts";
import type {
  ComparedPart,
  ComparedTurn,
  Comparison,
  FileDifference,
  NamedThread,
  PairComparison,
  TurnDifference,
} from "../daemon/wire.ts";
import { checkRefused, page } from "../state/page.ts";
import { hashOf } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { baseName, plural } from "../text/format.ts";
import { Markdown } from "../text/Markdown.tsx";
import { visible, visibleLine } from "../text/visible.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { Fold } from "../ui/Fold.tsx";
import { LoadError } from "../ui/LoadError.tsx";
import { fileNote, hunks, partsOf, rows, summary, type Row } from "./rows.ts";

export function CompareView() {
  const route = useStore(page, (now) => now.route);
  return route.at === "compare" ? <Loaded key={`${route.a} ${route.b}`} a={route.a} b={route.b} /> : null;
}

function Loaded({ a, b }: { a: string; b: string }) {
  const [comparison, setComparison] = useState<Comparison | PairComparison | null>(null);
  const [error, setError] = useState<Problem | null>(null);
  const load = async (): Promise<void> => {
    setError(null);
    try {
      setComparison(await branchingCalls.compare(a, b));
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      checkRefused(problem);
      setError(problem);
    }
  };
  useEffect(() => void load(), []);
  const parts = comparison ? partsOf(comparison) : [];
  return (
    <div class="view" data-testid="compare-view">
      <header class="head">
        <BackToList />
        <div class="head-names">
          <h1>Comparison</h1>
          <p data-testid="compare-summary">{parts.map(({ title, part }) => [title, summary(part)].filter(Boolean).join(": ")).join(" · ")}</p>
        </div>
        <div class="head-actions">
          <button type="button" disabled={!comparison && !error} onClick={() => void load()}>
            Compare again
          </button>
        </div>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Comparison" aria-busy={!comparison && !error}>
        <div class="column compare">
          {error && <LoadError problem={error} retry={load} />}
          {parts.map(({ title, part }) => (
            <Part key={title} title={title} part={part} />
          ))}
        </div>
      </div>
    </div>
  );
}

function Part({ title, part }: { title: string; part: ComparedPart }) {
  return (
    <section aria-label={title || "Turns"}>
      <h2 class={title ? "" : "hidden"}>{title || "Turns"}</h2>
      <div class="sides names">
        <Name thread={part.a} />
        <Name thread={part.b} />
      </div>
      {rows(part.turns).map((row, index) => (
        <RowView key={index} row={row} />
      ))}
      {part.files.length > 0 && (
        <>
          <h3>Files</h3>
          {part.files.map((file) => (
            <File key={file.path} file={file} />
          ))}
        </>
      )}
    </section>
  );
}

const Name = ({ thread }: { thread: NamedThread }) => (
  <a href={hashOf({ at: "thread", thread: thread.id })}>{visible(thread.name)}</a>
);

function RowView({ row }: { row: Row }) {
  if (row.kind === "differs") return <Sides turn={row.turn} />;
  return (
    <Fold class="same-turns" testid="same-turns" summary={`${plural(row.turns.length, "turn")} the same in both`}>
      {() => row.turns.map((turn, index) => turn.a && <Said key={index} turn={turn.a} />)}
    </Fold>
  );
}

const Sides = ({ turn }: { turn: TurnDifference }) => (
  <div class="sides" data-testid="differing-turn" data-step={turn.step}>
    {turn.a ? <Said turn={turn.a} /> : <Absent />}
    {turn.b ? <Said turn={turn.b} /> : <Absent />}
  </div>
);

const Absent = () => <p class="absent">no turn here</p>;

const Said = ({ turn }: { turn: ComparedTurn }) => (
  <article class={`said ${turn.role}`}>
    <h3>{turn.role === "user" ? "You" : visibleLine([turn.agent, turn.model].filter(Boolean).join(" · ") || "Agent")}</h3>
    {turn.role === "user" ? <div class="markdown plain">{visible(turn.text)}</div> : <Markdown text={turn.text} />}
  </article>
);

function File({ file }: { file: FileDifference }) {
  const shown = hunks(file.diff);
  return (
    <details class="fold file" data-testid="compared-file" open={shown.length > 0}>
      <summary>
        <span class="tool-name">{visible(file.path)}</span>
        <span class="tool-arg">{fileNote(file)}</span>
      </summary>
      {shown.length > 0 && (
        <figure class="diff">
          <div class="diff-lines" tabIndex={0} role="region" aria-label={`Differences in ${visibleLine(baseName(file.path))}`}>
            {shown.map((hunk, at) => (
              <pre key={at}>
                {hunk.map((line, index) => (
                  <span key={index} class={line.sign}>
                    {visible(line.text)}
                    {"\n"}
                  </span>
                ))}
              </pre>
            ))}
          </div>
        </figure>
      )}
    </details>
  );
}
