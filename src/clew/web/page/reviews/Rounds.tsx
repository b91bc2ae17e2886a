// The rounds of a review side by side: how each was run, what it cost, and its result.

import { useLayoutEffect, useRef } from "preact/hooks";
import { RunActivity } from "../conversation/Activity.tsx";
import { SessionChip } from "../conversation/Badge.tsx";
import type { Review, Round } from "../daemon/wire.ts";
import { hashOf } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { daemon } from "../state/sync.ts";
import { count, dollars, duration, durationMs, plural, shownTokens } from "../text/format.ts";
import { Markdown } from "../text/Markdown.tsx";
import { visible } from "../text/visible.ts";
import { Steps } from "../tools/Steps.tsx";
import { Warning } from "../ui/icons.tsx";

export function Rounds({ review, chosen }: { review: Review; chosen: number }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const column = box.current?.querySelector(".chosen")?.getBoundingClientRect();
    if (!box.current || !column) return;
    const frame = box.current.getBoundingClientRect();
    box.current.scrollLeft += Math.max(0, column.right - frame.right) + Math.min(0, column.left - frame.left);
  }, [chosen, review.rounds.length]);
  return (
    <div class="rounds" ref={box} tabIndex={0} role="region" aria-label="Rounds">
      {review.rounds.map((round) => (
        <Column key={round.round} review={review} round={round} chosen={round.round === chosen} />
      ))}
    </div>
  );
}

function Column({ review, round, chosen }: { review: Review; round: Round; chosen: boolean }) {
  return (
    <section
      class={chosen ? "round-card chosen" : "round-card"}
      data-testid="round"
      data-round={round.round}
      aria-label={`Round ${round.round}`}
    >
      <h2>
        <a
          href={hashOf({ at: "review", review: review.id, round: round.round })}
          aria-current={chosen ? "true" : undefined}
          title="Show the diff of this round"
        >
          Round {round.round}
        </a>
        {isSessionKnown(round) && <SessionChip resumed={round.session_resumed} reason={round.reason} fallback={round.fallback} />}
      </h2>
      <Figures round={round} />
      {round.message && <blockquote aria-label="The author's message">{visible(round.message)}</blockquote>}
      {round.status === "running" && <LiveRound round={round} />}
      {round.error && <Failure round={round} />}
      {round.summary && <Markdown text={round.summary} />}
      <Verdicts round={round} />
    </section>
  );
}

/** Whether its session was resumed is known when its first run has ended. */
const isSessionKnown = (round: Round): boolean => round.session_resumed || round.reason !== null;

function Figures({ round }: { round: Round }) {
  const read = shownTokens(round.usage);
  const cached = round.usage.cache_read_input_tokens;
  const took = durationMs(round);
  const facts = [
    [round.agent, round.model].filter(Boolean).join(" · "),
    read > 0 ? `${count(read)} read${cached > 0 ? `, ${count(cached)} cached` : ""}` : "",
    read > 0 ? `${count(round.usage.output_tokens)} written` : "",
    round.cost_usd > 0 ? dollars(round.cost_usd) : "",
    took === null ? "" : duration(took),
    plural(round.files.length, "file"),
    round.round > 1 ? `${round.changed_since.length} changed since the last round` : "",
    round.runs > 1 ? "asked twice" : "",
  ];
  return (
    <p class="badge" data-testid="round-badge">
      {facts.filter(Boolean).map((fact) => (
        <span key={fact}>{visible(fact)}</span>
      ))}
    </p>
  );
}

/** The progress of a running round. Its text is JSON for Clew, so only its other steps are shown. */
function LiveRound({ round }: { round: Round }) {
  const run = useStore(daemon, (now) => now.conversation?.runs.find((each) => each.id === round.run_id) ?? null);
  const progress = useStore(daemon, (now) => (round.run_id && now.progress[round.run_id]) || null);
  const steps = progress?.parts.filter((part) => part.kind !== "text") ?? [];
  return (
    <div aria-busy="true">
      {run ? (
        <RunActivity run={run} progress={progress} />
      ) : (
        <p class="activity" data-testid="activity" role="status">
          <span class="pulse" aria-hidden="true" /> {isSessionKnown(round) ? "reading the answer…" : "starting…"}
        </p>
      )}
      {steps.length > 0 && <Steps parts={steps} live />}
    </div>
  );
}

function Failure({ round: { error } }: { round: Round }) {
  if (!error) return null;
  const stopped = error.code === "cancelled";
  return (
    <div class={stopped ? "ending" : "ending problem"} data-testid="round-error">
      <p>
        {!stopped && <Warning />} <strong>{visible(error.message)}</strong>
      </p>
      {error.hint && <p>{visible(error.hint)}</p>}
    </div>
  );
}

function Verdicts({ round }: { round: Round }) {
  if (round.status !== "done") return null;
  const found = round.findings.map((each) => each.id).join(", ");
  return (
    <ul class="verdicts">
      {round.earlier.map((verdict) => (
        <li key={verdict.id}>
          <span class={`verdict ${verdict.state}`}>
            {visible(verdict.id)} {verdict.state}
          </span>
          {verdict.note && ` ${visible(verdict.note)}`}
        </li>
      ))}
      <li class="muted">{found ? `${plural(round.findings.length, "new finding")}: ${found}` : "no new findings"}</li>
    </ul>
  );
}
