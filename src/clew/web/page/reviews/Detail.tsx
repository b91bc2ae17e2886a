// One review: its rounds, its findings, the diff of a round with the findings on it, and the form for the next round.

import { useMemo, useState } from "preact/hooks";
import type { Finding, Review } from "../daemon/wire.ts";
import { exportReview } from "../state/actions.ts";
import { page } from "../state/page.ts";
import { refreshReview, reviews } from "../state/reviews.ts";
import { go } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { daemon } from "../state/sync.ts";
import { dollars, shortPath } from "../text/format.ts";
import { visible, visibleLine } from "../text/visible.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { Fold } from "../ui/Fold.tsx";
import { Back, Download } from "../ui/icons.tsx";
import { LoadError } from "../ui/LoadError.tsx";
import { Output } from "../ui/Output.tsx";
import { DiffView } from "./DiffView.tsx";
import { FindingList, type Filter, type Target } from "./Findings.tsx";
import { describeScope, ReviewChip } from "./List.tsx";
import { NextRound } from "./NextRound.tsx";
import { bySeverity, findingsOfRound } from "./placement.ts";
import { Rounds } from "./Rounds.tsx";

export function ReviewView() {
  const { open, missing, error } = useStore(reviews, (now) => now);
  if (missing) {
    return (
      <div class="empty">
        <h1>Review not found</h1>
        <p>
          Its thread was deleted, or the address belongs to another Clew. <a href="#/reviews">All reviews</a>
        </p>
      </div>
    );
  }
  if (!open && error) {
    return (
      <div class="empty">
        <h1>The review could not be loaded</h1>
        <LoadError problem={error} retry={refreshReview} />
      </div>
    );
  }
  if (!open) return <div class="empty" aria-busy="true" />;
  return <LoadedReview key={open.id} review={open} />;
}

let requests = 0;

function LoadedReview({ review }: { review: Review }) {
  const chosen = useStore(page, ({ route }) => (route.at === "review" ? route.round : null));
  const [filter, setFilter] = useState<Filter>("all");
  const [target, setTarget] = useState<Target | null>(null);
  const findings = useMemo(() => bySeverity(review.findings), [review.findings]);
  const round = review.rounds.find((each) => each.round === chosen) ?? review.rounds.at(-1) ?? null;
  const jump = (finding: Finding): void => {
    setTarget({ id: finding.id, request: ++requests });
    // A finding that was settled before this round is on the diff of the round that found it.
    const isHere = round !== null && findingsOfRound(review, round.round).some((each) => each.id === finding.id);
    if (!isHere) go({ at: "review", review: review.id, round: finding.round });
  };
  return (
    <div class="view" data-testid="review-view">
      <Head review={review} />
      <div class="scroll" tabIndex={0} role="region" aria-label="Review">
        <div class="column broad">
          {round ? (
            <>
              <Rounds review={review} chosen={round.round} />
              <FindingList findings={findings} filter={filter} choose={setFilter} jump={jump} />
              <DiffView key={round.round} review={review} round={round} filter={filter} target={target} />
            </>
          ) : (
            <div class="empty inside">
              <h2>No rounds yet</h2>
              <p>Start one below.</p>
            </div>
          )}
          <RawMessages review={review} />
        </div>
      </div>
      <NextRound review={review} />
    </div>
  );
}

function Head({ review }: { review: Review }) {
  const home = useStore(page, (now) => now.settings?.home);
  return (
    <header class="head">
      <BackToList />
      <button class="quiet" type="button" aria-label="All reviews" title="All reviews" onClick={() => go({ at: "reviews" })}>
        <Back />
      </button>
      <div class="head-names">
        <h1>Review {review.id}</h1>
        <p>
          <ReviewChip review={review} />
          <span class="path" title={visible(review.cwd)}>
            {visible(shortPath(review.cwd, home))}
          </span>
          <span class="wide" title={visible(describeScope(review))}>
            {visibleLine(describeScope(review))}
          </span>
          {review.cost_usd > 0 && <span class="wide">{dollars(review.cost_usd)}</span>}
        </p>
      </div>
      <div class="head-actions">
        <button
          class="quiet"
          type="button"
          data-testid="export"
          title="Save as a Markdown file"
          onClick={() => void exportReview(review.id)}
        >
          <Download /> <span class="wide">Export</span>
        </button>
      </div>
    </header>
  );
}

/** The raw prompts and answers of the review, for when a result is hard to believe or could not be read. */
function RawMessages({ review }: { review: Review }) {
  const turns = useStore(daemon, (now) => (now.open === review.thread_id ? now.conversation?.turns : null));
  if (!turns?.length) return null;
  return (
    <Fold class="raw-messages" testid="raw-messages" summary="All prompts and answers, unformatted">
      {() =>
        turns.map((turn, index) => (
          <Output key={turn.id} label={`${turn.role === "user" ? "Prompt" : "Answer"}, message ${index + 1}`} text={turn.text} />
        ))
      }
    </Fold>
  );
}

