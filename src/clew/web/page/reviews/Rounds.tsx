// The rounds of a review side by side: how each was asked, what it cost, and what it said.

import { useLayoutEffect, useRef } from "preact/hooks";
import { Doing } from "./AnswerTurn.tsx";
import { SessionChip } from "./Badge.tsx";
import { Warning } from "./icons.tsx";
import { Markdown } from "./Markdown.tsx";
import { Parts } from "./Steps.tsx";
import { useStore } from "./store.ts";
import { daemon, reviewHash } from "./sync.ts";
import { visible } from "./visible.ts";
import type { Review, Round } from "./wire.ts";
import { count, dollars, duration, plural, shown, tookMs } from "./words.ts";

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
    <section class={chosen ? "round-card chosen" : "round-card"} data-testid="round" data-round={round.round} aria-label={`Round ${round.round}`}>
      <h2>
        <a href={reviewHash(review.id, round.round)} aria-current={chosen ? "true" : undefined} title="Show its diff">
          Round {round.round}
        </a>
        {isKnown(round) && <SessionChip resumed={round.session_resumed} reason={round.reason} fallback={round.fallback} />}
      </h2>
      <Figures round={round} />
      {round.message && <blockquote aria-label="The author's message">{visible(round.message)}</blockquote>}
      {round.status === "running" && <Live round={round} />}
      {round.error && <Failure round={round} />}
      {round.summary && <Markdown text={round.summary} />}
      <Verdicts round={round} />
    </section>
  );
}

/** How its session began is known when its first run is over. */
const isKnown = (round: Round): boolean => round.session_resumed || round.reason !== null;

function Figures({ round }: { round: Round }) {
  const read = shown(round.usage);
  const cached = round.usage.cache_read_input_tokens;
  const took = tookMs(round);
  const facts = [
    [round.agent, round.model].filter(Boolean).join(" · "),
    read > 0 ? `${count(read)} read${cached > 0 ? `, ${count(cached)} cached` : ""}` : "",
    read > 0 ? `${count(round.usage.output_tokens)} written` : "",
    round.cost_usd > 0 ? dollars(round.cost_usd) : "",
    took === null ? "" : duration(took),
    plural(round.files.length, "file"),
    round.round > 1 ? `${round.changed_since.length} changed since` : "",
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

/** What goes on while it runs. Its words are an object for Clew, not for a reader: only its steps are shown. */
function Live({ round }: { round: Round }) {
  const run = useStore(daemon, (now) => now.conversation?.runs.find((each) => each.id === round.run_id) ?? null);
  const progress = useStore(daemon, (now) => (round.run_id && now.progress[round.run_id]) || null);
  const steps = progress?.parts.filter((part) => part.kind !== "text") ?? [];
  return (
    <div aria-busy="true">
      {run ? (
        <Doing run={run} progress={progress} />
      ) : (
        <p class="doing" data-testid="doing" role="status">
          <span class="pulse" aria-hidden="true" /> {isKnown(round) ? "reading its answer…" : "starting…"}
        </p>
      )}
      {steps.length > 0 && <Parts parts={steps} live />}
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
