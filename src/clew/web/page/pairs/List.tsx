// The list of pairs: task, status, rounds and cost of each.

import { useEffect } from "preact/hooks";
import type { PairNote, PairStatus } from "../daemon/wire.ts";
import { page } from "../state/page.ts";
import { loadMorePairs, pairs, pairTitle, refreshPairs } from "../state/pairs.ts";
import { hashOf } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { age, baseName, dateTime, dollars, plural } from "../text/format.ts";
import { visible, visibleLine } from "../text/visible.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { useMinute } from "../ui/clock.ts";
import { Plus } from "../ui/icons.tsx";
import { LoadError } from "../ui/LoadError.tsx";

export function PairList() {
  const { items, total, listed, error } = useStore(pairs, (now) => now);
  const now = useMinute();
  useEffect(() => void refreshPairs().catch(() => undefined), []);
  const make = (): void => page.patch({ dialog: { is: "pair" } });
  return (
    <div class="view" data-testid="pairs-view">
      <header class="head">
        <BackToList />
        <div class="head-names">
          <h1>Pairs</h1>
          <p>{listed && plural(total, "pair")}</p>
        </div>
        <div class="head-actions">
          <button type="button" data-testid="new-pair" onClick={make}>
            <Plus /> New pair
          </button>
        </div>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Pairs" aria-busy={!listed && !error}>
        <div class="column wide">
          {error && <LoadError problem={error} retry={refreshPairs} />}
          {listed && items.length === 0 && (
            <div class="empty inside">
              <h2>No pairs yet</h2>
              <p>
                In a pair, an instructor plans a task and a worker carries it out, round by round, until the instructor says
                that it is done. Each has its own thread and session.
              </p>
              <button class="primary" type="button" onClick={make}>
                <Plus /> New pair
              </button>
            </div>
          )}
          <ul class="jobs" data-testid="pairs">
            {items.map((pair) => (
              <Row key={pair.id} pair={pair} now={now} />
            ))}
          </ul>
          {items.length < total && (
            <button class="quiet earlier" type="button" onClick={() => void loadMorePairs().catch(() => undefined)}>
              Show more
            </button>
          )}
        </div>
      </div>
    </div>
  );
}

const Row = ({ pair, now }: { pair: PairNote; now: number }) => (
  <li>
    <a class="job" href={hashOf({ at: "pair", pair: pair.id })} data-testid="pair-item" data-state={pair.status}>
      <PairChip status={pair.status} />
      <span class="job-prompt">
        <strong>{visible(pair.name)}</strong> <span class="muted">{visibleLine(pairTitle(pair))}</span>
      </span>
      <span class="job-note">
        <span class="folder" title={visible(pair.cwd)}>
          {visible(baseName(pair.cwd))}
        </span>
        <span>{plural(pair.round, "round")}</span>
        {pair.cost_usd > 0 && <span>{dollars(pair.cost_usd)}</span>}
        <time title={dateTime(pair.updated_at)} dateTime={pair.updated_at}>
          {age(pair.updated_at, now)}
        </time>
      </span>
    </a>
  </li>
);

const STATES: Record<PairStatus, { tone: string; label: string }> = {
  running: { tone: "plain", label: "running" },
  finished: { tone: "good", label: "finished" },
  out_of_rounds: { tone: "warning", label: "out of rounds" },
  stopped: { tone: "plain", label: "stopped" },
  interrupted: { tone: "warning", label: "interrupted" },
};

export const PairChip = ({ status }: { status: PairStatus }) => (
  <span class={`chip ${STATES[status].tone}`} data-testid="pair-status">
    {status === "running" && <span class="pulse" aria-hidden="true" />} {STATES[status].label}
  </span>
);
