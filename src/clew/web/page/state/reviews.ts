// The reviews as the page knows them: the newest, and the one that is open.

import { http, Problem } from "./http.ts";
import { refresher } from "./refresher.ts";
import { Store } from "./store.ts";
import type { Review, ReviewNote } from "./wire.ts";

export interface Reviews {
  items: readonly ReviewNote[]; // the newest first
  total: number;
  listed: boolean;
  open: Review | null;
  missing: boolean; // the one that was to be opened is not there
  trouble: Problem | null; // why the list, or the open one, could not be had
}

export const reviews = new Store<Reviews>({
  items: [],
  total: 0,
  listed: false,
  open: null,
  missing: false,
  trouble: null,
});

const STEP = 100;
const EVERY_MS = 250; // at most: a round says a lot

let wanted = ""; // the id of the one to be shown
let most = STEP;

export const refreshReviews = refresher(async () => {
  await told(http.reviews(most).then(({ items, total }) => reviews.patch({ items, total, listed: true, trouble: null })));
}, EVERY_MS);

export function moreReviews(): Promise<void> {
  most += STEP;
  return refreshReviews();
}

export const refreshReview = refresher(async () => {
  const id = wanted;
  const stays = (): boolean => id === wanted; // else somebody has gone on to another one
  if (id) await told(http.review(id).then((open) => stays() && reviews.patch({ open, missing: false, trouble: null })), stays);
}, EVERY_MS);

/** What goes wrong is shown where the answer would be. */
async function told(work: Promise<unknown>, stays = () => true): Promise<void> {
  try {
    await work;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (!stays()) return;
    if (problem.status === 404) reviews.patch({ open: null, missing: true });
    else reviews.patch({ trouble: problem });
    if (problem.status === 401) throw problem;
  }
}

/** Opens a review by its id; null: it is not there, or another one is wanted by now. */
export async function openReview(id: string): Promise<Review | null> {
  if (wanted !== id) reviews.patch({ open: null, missing: false, trouble: null });
  wanted = id;
  await refreshReview();
  const { open } = reviews.now;
  return open?.id === id ? open : null;
}
