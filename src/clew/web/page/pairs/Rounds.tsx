// The rounds of a pair: the instructor's order and the worker's report, and what the active run is doing.

import { useState } from "preact/hooks";
import type { Pair, PairRound } from "../daemon/wire.ts";
import { forkPair } from "../state/pairs.ts";
import type { PairProgress } from "../state/pairProgress.ts";
import { isOpen } from "../state/progress.ts";
import { plural } from "../text/format.ts";
import { Markdown } from "../text/Markdown.tsx";
import { visible, visibleLine } from "../text/visible.ts";
import { Steps, useSteps } from "../tools/Steps.tsx";
import { Confirm } from "../ui/Confirm.tsx";
import { Fold } from "../ui/Fold.tsx";
import { Fork } from "../ui/icons.tsx";

export function Round({ pair, round }: { pair: Pair; round: PairRound }) {
  const [isForking, setIsForking] = useState(false);
  const { order } = round;
  return (
    <section class="pair-round" data-testid="pair-round-item" aria-label={`Round ${round.round}`}>
      <header>
        <h2>Round {round.round}</h2>
        {order?.needs_correction && <span class="chip warning">correction</span>}
        {order && !order.should_continue && <span class="chip good">done</span>}
        <span class="grow" />
        {round.ended_at && (
          <button
            class="quiet"
            type="button"
            data-testid="fork-pair"
            title="A new pair that continues from here"
            aria-label={`Fork after round ${round.round}`}
            onClick={() => setIsForking(true)}
          >
            <Fork size={14} />
          </button>
        )}
      </header>
      {isForking && (
        <Confirm
          text={`A new pair gets rounds 1 to ${round.round}, and can be resumed from there. This pair does not change.`}
          button="Fork"
          act={() => forkPair(pair.id, round.round)}
          close={() => setIsForking(false)}
        />
      )}
      {round.message && (
        <article class="said user">
          <h3>You</h3>
          <div class="markdown plain">{visible(round.message)}</div>
        </article>
      )}
      {round.changed_files.length > 0 && (
        <p class="note plain" title={visible(round.changed_files.join("\n"))}>
          {plural(round.changed_files.length, "file")} changed by somebody else before this round
        </p>
      )}
      {order && (
        <article class="said order" data-testid="order">
          <h3>Instructor</h3>
          {order.thinking && (
            <Fold class="thinking" summary="Thinking">
              {() => <Markdown text={order.thinking} />}
            </Fold>
          )}
          <Markdown text={order.instruction} />
        </article>
      )}
      {round.result !== null && (
        <article class="said" data-testid="report">
          <h3>Worker{round.worker_model && ` · ${visibleLine(round.worker_model)}`}</h3>
          {round.worker_run && (
            <Fold class="thinking" testid="round-steps" summary="Steps">
              {() => <StoredSteps run={round.worker_run ?? ""} />}
            </Fold>
          )}
          <Markdown text={round.result} />
        </article>
      )}
    </section>
  );
}

function StoredSteps({ run }: { run: string }) {
  const parts = useSteps(run);
  if (!parts) return <p class="hint">Loading…</p>;
  const tools = parts.filter((part) => part.kind !== "text"); // the report is below
  return tools.length > 0 ? <Steps parts={tools} live={false} /> : <p class="hint">It used no tools.</p>;
}

/** The run that is active. The instructor's text is not shown while it is written, because it is JSON. */
export function CurrentRun({ pair, progress }: { pair: Pair; progress: PairProgress }) {
  const part = progress.part ?? (pair.phase === "working" ? "worker" : "instructor");
  const parts = progress.progress.parts.filter((each) => part === "worker" || each.kind !== "text");
  const tool = parts.findLast(isOpen);
  const doing = tool ? `running ${visibleLine(tool.name)}…` : part === "worker" ? "working…" : "planning…";
  return (
    <article class="said live" data-testid="pair-live" data-part={part}>
      <p class="activity" role="status">
        <span class="pulse" aria-hidden="true" /> {part === "worker" ? "Worker" : "Instructor"}: {doing}
      </p>
      {parts.length > 0 && <Steps parts={parts} live />}
    </article>
  );
}
