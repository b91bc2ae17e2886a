// What a review found: as a list with its states, and as cards that stand on the diff.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { counted, STATES, type Placed } from "./findings.ts";
import { Caret } from "./icons.tsx";
import { Markdown } from "./Markdown.tsx";
import { SeverityMark } from "./Reviews.tsx";
import { visible, visibleLine } from "./visible.ts";
import type { Finding, FindingState } from "./wire.ts";

export type Filter = FindingState | "all";

interface Listing {
  findings: readonly Finding[]; // the gravest first
  filter: Filter;
  choose: (filter: Filter) => void;
  jump: (finding: Finding) => void;
}

export const fits = (filter: Filter, finding: Finding): boolean => filter === "all" || finding.state === filter;

export function FindingList({ findings, filter, choose, jump }: Listing) {
  const counts = counted(findings);
  const shown = findings.filter((each) => fits(filter, each));
  // What is settled stands below what is not.
  const ordered = [...shown.filter((each) => each.state === "open"), ...shown.filter((each) => each.state !== "open")];
  return (
    <section class="findings" aria-label="Findings">
      <div class="section-head">
        <h2>Findings</h2>
        {findings.length > 0 && (
          <div class="row" role="group" aria-label="Which findings" data-testid="state-filter">
            <Choice name="all" count={findings.length} filter={filter} choose={choose} />
            {STATES.map((state) => (
              <Choice key={state} name={state} count={counts[state]} filter={filter} choose={choose} />
            ))}
          </div>
        )}
      </div>
      {ordered.length === 0 && <p class="note plain">{findings.length === 0 ? "None so far." : `None is ${filter}.`}</p>}
      <ul>
        {ordered.map((finding) => (
          <li key={finding.id}>
            <button
              type="button"
              class={`finding-row ${finding.state}`}
              data-testid="finding"
              data-state={finding.state}
              onClick={() => jump(finding)}
            >
              <span class="finding-id">{finding.id}</span>
              <SeverityMark severity={finding.severity} />
              <span class="finding-title">{visibleLine(finding.title)}</span>
              <span class="finding-place">{visibleLine(place(finding))}</span>
              <StateMark finding={finding} />
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

const Choice = ({ name, count, filter, choose }: { name: Filter; count: number; filter: Filter; choose: (filter: Filter) => void }) => (
  <button type="button" class={name === filter ? "toggle chosen" : "toggle"} aria-pressed={name === filter} onClick={() => choose(name)}>
    {name} {count}
  </button>
);

const place = ({ file, line }: Finding): string => (file === null ? "" : line === null ? file : `${file}:${line}`);

const StateMark = ({ finding }: { finding: Finding }) => (
  <span class={`verdict ${finding.state}`}>
    {finding.state === "open" ? `open since round ${finding.round}` : `${finding.state} in round ${finding.state_round}`}
  </span>
);

/** One that was asked for. */
export interface Target {
  id: string;
  n: number; // every asking has its own, and is answered once
}

let answered = 0;

/** Where it is, it is in full; what is settled is folded to a line. */
export function FindingCard({ placed: { finding, line }, target }: { placed: Placed; target: Target | null }) {
  const ref = useRef<HTMLDetailsElement>(null);
  const [open, toggle] = useState(finding.state === "open");
  const wanted = target?.id === finding.id ? target.n : 0;
  useLayoutEffect(() => {
    if (wanted <= answered) return;
    answered = wanted;
    toggle(true);
    ref.current?.scrollIntoView({ block: "center" });
    ref.current?.querySelector("summary")?.focus({ preventScroll: true });
  }, [wanted]);
  return (
    <details
      ref={ref}
      class={`finding-card fold ${finding.state} ${finding.severity}`}
      data-testid="finding-card"
      data-finding={finding.id}
      data-state={finding.state}
      open={open}
      onToggle={(event) => toggle(event.currentTarget.open)}
    >
      <summary>
        <Caret size={12} />
        <span class="finding-id">{finding.id}</span>
        <SeverityMark severity={finding.severity} />
        <span class="finding-title">{visibleLine(finding.title, 1000)}</span>
        <StateMark finding={finding} />
      </summary>
      {open && (
        <div class="finding-body">
          {finding.file !== null && (line === null || line !== finding.line) && (
            <p class="finding-place">
              {visible(place(finding))}
              {line !== finding.line && `, as it was in round ${finding.round}`}
            </p>
          )}
          <Markdown text={finding.detail} />
          {finding.suggestion && (
            <Told word="Suggestion">
              <Markdown text={finding.suggestion} />
            </Told>
          )}
          {finding.note && <Told word={`Round ${finding.state_round}`}>{visible(finding.note)}</Told>}
        </div>
      )}
    </details>
  );
}

const Told = ({ word, children }: { word: string; children: ComponentChildren }) => (
  <div class="told">
    <strong>{word}</strong>
    <div>{children}</div>
  </div>
);
