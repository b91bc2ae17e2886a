// The list of reviews: repository, rounds, open findings and cost of each.

import { useEffect } from "preact/hooks";
import type { ReviewNote, Severity } from "../daemon/wire.ts";
import { page } from "../state/page.ts";
import { loadMoreReviews, refreshReviews, reviews } from "../state/reviews.ts";
import { hashOf } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { age, baseName, dateTime, dollars, plural } from "../text/format.ts";
import { visible, visibleLine } from "../text/visible.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { useMinute } from "../ui/clock.ts";
import { Plus } from "../ui/icons.tsx";
import { LoadError } from "../ui/LoadError.tsx";
import { SEVERITIES } from "./placement.ts";

export function ReviewList() {
  const { items, total, listed, error } = useStore(reviews, (now) => now);
  const now = useMinute();
  useEffect(() => void refreshReviews().catch(() => undefined), []);
  const make = (): void => page.patch({ dialog: { is: "review" } });
  return (
    <div class="view" data-testid="reviews-view">
      <header class="head">
        <BackToList />
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
      <div class="scroll" tabIndex={0} role="region" aria-label="Reviews" aria-busy={!listed && !error}>
        <div class="column wide">
          {error && <LoadError problem={error} retry={refreshReviews} />}
          {listed && items.length === 0 && (
            <div class="empty inside">
              <h2>No reviews yet</h2>
              <p>
                A review examines the changes in a repository and lists what is wrong with them. Fix some findings and start the
                next round: the reviewer's session is resumed, and it is shown only what changed.
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
            <button class="quiet earlier" type="button" onClick={() => void loadMoreReviews().catch(() => undefined)}>
              Show more
            </button>
          )}
        </div>
      </div>
    </div>
  );
}

function Row({ review, now }: { review: ReviewNote; now: number }) {
  return (
    <li>
      <a
        class="job review-row"
        href={hashOf({ at: "review", review: review.id, round: null })}
        data-testid="review-item"
        data-state={review.status}
      >
        <ReviewChip review={review} />
        <span class="job-prompt">
          <strong>{visible(baseName(review.cwd))}</strong> <span class="muted">{visibleLine(describeScope(review))}</span>
        </span>
        <span class="job-note">
          <Severities counts={review.open_by_severity} />
          <span>{plural(review.round, "round")}</span>
          {review.cost_usd > 0 && <span>{dollars(review.cost_usd)}</span>}
          <span class="wide">{review.id}</span>
          <time title={dateTime(review.created_at)} dateTime={review.created_at}>
            {age(review.created_at, now)}
          </time>
        </span>
      </a>
    </li>
  );
}

/** Which changes are reviewed, in a few words. */
export function describeScope(review: ReviewNote): string {
  const parts = [
    review.base ? `since ${review.base}` : review.scope === "all" ? "uncommitted" : review.scope,
    review.base && review.scope !== "all" ? review.scope : "",
    review.paths.length > 0 ? `in ${review.paths.join(", ")}` : "",
    review.focus,
  ];
  return parts.filter(Boolean).join(" · ");
}

export function ReviewChip({ review }: { review: ReviewNote }) {
  const [tone, text] =
    review.status === "running"
      ? ["plain", "running"]
      : review.status === "failed"
        ? ["bad", "failed"]
        : review.open > 0
          ? ["warning", `${review.open} open`]
          : ["good", "nothing open"];
  return (
    <span class={`chip ${tone}`} data-testid="review-status">
      {review.status === "running" && <span class="pulse" aria-hidden="true" />} {text}
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
