// The reviews that the page knows: the newest ones, and the open review.

import { http, Problem } from "../daemon/http.ts";
import type { Review, ReviewNote } from "../daemon/wire.ts";
import { refresher } from "./refresher.ts";
import { Store } from "./store.ts";

interface ReviewsState {
  items: readonly ReviewNote[]; // the newest first
  total: number;
  listed: boolean;
  open: Review | null;
  missing: boolean; // the review to open does not exist
  error: Problem | null; // why the list, or the open review, could not be loaded
}

export const reviews = new Store<ReviewsState>({
  items: [],
  total: 0,
  listed: false,
  open: null,
  missing: false,
  error: null,
});

const PAGE_SIZE = 100;
const PAUSE_MS = 250; // a running round changes many times a second

let wantedId = ""; // of the review to show
let limit = PAGE_SIZE;

export const refreshReviews = refresher(async () => {
  await showingErrors(http.reviews(limit).then(({ items, total }) => reviews.patch({ items, total, listed: true, error: null })));
}, PAUSE_MS);

export function loadMoreReviews(): Promise<void> {
  limit += PAGE_SIZE;
  return refreshReviews();
}

export const refreshReview = refresher(async () => {
  const id = wantedId;
  const isWanted = (): boolean => id === wantedId; // false: another review was opened in the meantime
  const load = async (): Promise<void> => {
    const open = await http.review(id);
    if (isWanted()) reviews.patch({ open, missing: false, error: null });
  };
  if (id) await showingErrors(load(), isWanted);
}, PAUSE_MS);

/** A failure is shown where the result would be. */
async function showingErrors(work: Promise<unknown>, isWanted = () => true): Promise<void> {
  try {
    await work;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (!isWanted()) return;
    if (problem.status === 404) reviews.patch({ open: null, missing: true });
    else reviews.patch({ error: problem });
    if (problem.status === 401) throw problem;
  }
}

/** Opens a review by its id. Null: it does not exist, or another one was opened in the meantime. */
export async function openReview(id: string): Promise<Review | null> {
  if (wantedId !== id) reviews.patch({ open: null, missing: false, error: null });
  wantedId = id;
  await refreshReview();
  const { open } = reviews.now;
  return open?.id === id ? open : null;
}
