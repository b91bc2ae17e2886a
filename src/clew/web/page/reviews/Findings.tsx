// The findings of a review: as a list, and as cards on the diff.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Finding, FindingState } from "../daemon/wire.ts";
import { Markdown } from "../text/Markdown.tsx";
import { visible, visibleLine } from "../text/visible.ts";
import { Caret } from "../ui/icons.tsx";
import { SeverityMark } from "./List.tsx";
import { STATES, type PlacedFinding } from "./placement.ts";

export type Filter = FindingState | "all";

interface ListProps {
  findings: readonly Finding[]; // the most severe first
  filter: Filter;
  choose: (filter: Filter) => void;
  jump: (finding: Finding) => void;
}

export const matches = (filter: Filter, finding: Finding): boolean => filter === "all" || finding.state === filter;

export function FindingList({ findings, filter, choose, jump }: ListProps) {
  const shown = findings.filter((each) => matches(filter, each));
  // Settled findings are listed below open ones.
  const ordered = [...shown.filter((each) => each.state === "open"), ...shown.filter((each) => each.state !== "open")];
  return (
    <section class="findings" aria-label="Findings">
      <div class="section-head">
        <h2>Findings</h2>
        {findings.length > 0 && (
          <div class="row" role="group" aria-label="Which findings" data-testid="state-filter">
            {(["all", ...STATES] as const).map((name) => (
              <button
                key={name}
                type="button"
                class={name === filter ? "toggle chosen" : "toggle"}
                aria-pressed={name === filter}
                onClick={() => choose(name)}
              >
                {name} {findings.filter((each) => matches(name, each)).length}
              </button>
            ))}
          </div>
        )}
      </div>
      {ordered.length === 0 && (
        <p class="note plain">{findings.length === 0 ? "No findings so far." : `No finding is ${filter}.`}</p>
      )}
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
              <span class="finding-place">{visibleLine(fileAndLine(finding))}</span>
              <StateMark finding={finding} />
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

const fileAndLine = ({ file, line }: Finding): string => (file === null ? "" : line === null ? file : `${file}:${line}`);

const StateMark = ({ finding }: { finding: Finding }) => (
  <span class={`verdict ${finding.state}`}>
    {finding.state === "open" ? `open since round ${finding.round}` : `${finding.state} in round ${finding.state_round}`}
  </span>
);

/** The finding to scroll to. */
export interface Target {
  id: string;
  request: number; // increases with each request, which is handled once
}

let handledRequest = 0;

/** The card of an open finding is open; that of a settled one is folded. */
export function FindingCard({ placed: { finding, line }, target }: { placed: PlacedFinding; target: Target | null }) {
  const ref = useRef<HTMLDetailsElement>(null);
  const [open, setOpen] = useState(finding.state === "open");
  const request = target?.id === finding.id ? target.request : 0;
  useLayoutEffect(() => {
    if (request <= handledRequest) return;
    handledRequest = request;
    setOpen(true);
    ref.current?.scrollIntoView({ block: "center" });
    ref.current?.querySelector("summary")?.focus({ preventScroll: true });
  }, [request]);
  return (
    <details
      ref={ref}
      class={`finding-card fold ${finding.state} ${finding.severity}`}
      data-testid="finding-card"
      data-finding={finding.id}
      data-state={finding.state}
      open={open}
      onToggle={(event) => setOpen(event.currentTarget.open)}
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
              {visible(fileAndLine(finding))}
              {line !== finding.line && `, as it was in round ${finding.round}`}
            </p>
          )}
          <Markdown text={finding.detail} />
          {finding.suggestion && (
            <Labelled label="Suggestion">
              <Markdown text={finding.suggestion} />
            </Labelled>
          )}
          {finding.note && <Labelled label={`Round ${finding.state_round}`}>{visible(finding.note)}</Labelled>}
        </div>
      )}
    </details>
  );
}

const Labelled = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <div class="labelled">
    <strong>{label}</strong>
    <div>{children}</div>
  </div>
);
