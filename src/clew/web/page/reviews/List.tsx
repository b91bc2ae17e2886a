// All reviews: of which repository, how many rounds, what is still open, and what they cost.

import { useEffect } from "preact/hooks";
import { useMinute } from "./clock.ts";
import { SEVERITIES } from "./findings.ts";
import type { Problem } from "./http.ts";
import { Plus, Warning } from "./icons.tsx";
import { moreReviews, refreshReviews, reviews } from "./reviews.ts";
import { useStore } from "./store.ts";
import { page, reviewHash } from "./sync.ts";
import { ToList } from "./ThreadHead.tsx";
import { visible, visibleLine } from "./visible.ts";
import type { ReviewNote, Severity } from "./wire.ts";
import { age, dollars, lastName, moment, plural } from "./words.ts";

export function Reviews() {
  const { items, total, listed, trouble } = useStore(reviews, (now) => now);
  const now = useMinute();
  useEffect(() => void refreshReviews().catch(() => undefined), []);
  const make = (): void => page.patch({ dialog: { is: "review" } });
  return (
    <div class="view" data-testid="reviews-view">
      <header class="head">
        <ToList />
        <div class="head-names">
          <h1>Reviews</h1>
          <p>{listed && plural(total, "review")}</p>
        </div>
        <div class="head-actions">
          <button type="button" data-testid="new-review" onClick={make}>
            <Plus /> New review
          </button>
        </div>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Reviews" aria-busy={!listed && !trouble}>
        <div class="column wide">
          {trouble && <Trouble problem={trouble} again={refreshReviews} />}
          {listed && items.length === 0 && (
            <div class="empty inside">
              <h2>No reviews yet</h2>
              <p>
                A review looks at the changes in a repository and lists what is wrong with them. Mend some, ask for the next
                round: the reviewer remembers, and is shown only what changed.
              </p>
              <button class="primary" type="button" onClick={make}>
                <Plus /> New review
              </button>
            </div>
          )}
          <ul class="jobs" data-testid="reviews">
            {items.map((review) => (
              <Row key={review.id} review={review} now={now} />
            ))}
          </ul>
          {items.length < total && (
            <button class="quiet earlier" type="button" onClick={() => void moreReviews().catch(() => undefined)}>
              More
            </button>
          )}
        </div>
      </div>
    </div>
  );
}

/** Something could not be had, and may be asked for again. */
export const Trouble = ({ problem, again }: { problem: Problem; again: () => unknown }) => (
  <div class="ending problem" role="alert">
    <p>
      <Warning /> <strong>{visible(problem.message)}</strong>
    </p>
    {problem.hint && <p>{visible(problem.hint)}</p>}
    <div class="row">
      <button type="button" onClick={() => void again()}>
        Try again
      </button>
    </div>
  </div>
);

function Row({ review, now }: { review: ReviewNote; now: number }) {
  return (
    <li>
      <a class="job review-row" href={reviewHash(review.id)} data-testid="review-item" data-state={review.status}>
        <ReviewChip review={review} />
        <span class="job-prompt">
          <strong>{visible(lastName(review.cwd))}</strong> <span class="muted">{visibleLine(about(review))}</span>
        </span>
        <span class="job-note">
          <Severities counts={review.open_by_severity} />
          <span>{plural(review.round, "round")}</span>
          {review.cost_usd > 0 && <span>{dollars(review.cost_usd)}</span>}
          <span class="wide">{review.id}</span>
          <time title={moment(review.created_at)} dateTime={review.created_at}>
            {age(review.created_at, now)}
          </time>
        </span>
      </a>
    </li>
  );
}

/** Which changes, in a few words. */
export function about(review: ReviewNote): string {
  const words = [
    review.base ? `since ${review.base}` : review.scope === "all" ? "not committed" : review.scope,
    review.base && review.scope !== "all" ? review.scope : "",
    review.paths.length > 0 ? `in ${review.paths.join(", ")}` : "",
    review.focus,
  ];
  return words.filter(Boolean).join(" · ");
}

export function ReviewChip({ review }: { review: ReviewNote }) {
  const [tone, words] =
    review.status === "running"
      ? ["plain", "running"]
      : review.status === "failed"
        ? ["fell", "failed"]
        : review.open > 0
          ? ["fresh", `${review.open} open`]
          : ["resumed", "nothing open"];
  return (
    <span class={`chip ${tone}`} data-testid="review-status">
      {review.status === "running" && <span class="pulse" aria-hidden="true" />} {words}
    </span>
  );
}

const Severities = ({ counts }: { counts: ReviewNote["open_by_severity"] }) => (
  <>
    {SEVERITIES.filter((severity) => counts[severity]).map((severity) => (
      <span key={severity} class={`severity ${severity}`}>
        {counts[severity]} {severity}
      </span>
    ))}
  </>
);

export const SeverityMark = ({ severity }: { severity: Severity }) => <span class={`severity ${severity}`}>{severity}</span>;
