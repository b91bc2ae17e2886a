// The pairs that the page knows: the newest ones, and the open one with what it is doing at the moment.

import { follow } from "../daemon/events.ts";
import { Problem } from "../daemon/http.ts";
import { pairCalls, type PairEvent } from "../daemon/pairs.ts";
import type { NewPair, Pair, PairNote, PairResume } from "../daemon/wire.ts";
import { attempt, checkRefused, page } from "./page.ts";
import { NO_PAIR_PROGRESS, withPairEvent, type PairProgress } from "./pairProgress.ts";
import { refresher } from "./refresher.ts";
import { go } from "./routes.ts";
import { Store } from "./store.ts";

interface PairsState {
  items: readonly PairNote[]; // the last used first
  total: number;
  listed: boolean;
  open: Pair | null;
  progress: PairProgress; // of the open pair
  missing: boolean; // the pair to open does not exist
  error: Problem | null; // why the list, or the open pair, could not be loaded
}

export const pairs = new Store<PairsState>({
  items: [],
  total: 0,
  listed: false,
  open: null,
  progress: NO_PAIR_PROGRESS,
  missing: false,
  error: null,
});

const PAGE_SIZE = 100;
const PAUSE_MS = 250; // a running pair changes many times a second

let limit = PAGE_SIZE;
let wantedId = ""; // of the pair to show: its id or its name

export const refreshPairs = refresher(async () => {
  await showingErrors(
    pairCalls.list(limit).then(({ items }) => pairs.patch({ items, total: items.length, listed: true, error: null })),
  );
}, PAUSE_MS);

export function loadMorePairs(): Promise<void> {
  limit += PAGE_SIZE;
  return refreshPairs();
}

export const refreshPair = refresher(async () => {
  const id = wantedId;
  const isWanted = (): boolean => id === wantedId; // false: another pair was opened in the meantime
  if (!id) return;
  const load = async (): Promise<void> => {
    const open = await pairCalls.get(id);
    if (isWanted()) show(open);
  };
  await showingErrors(load(), isWanted);
}, PAUSE_MS);

/** A failure is shown where the result would be. */
async function showingErrors(work: Promise<unknown>, isWanted = () => true): Promise<void> {
  try {
    await work;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (!isWanted()) return;
    if (problem.status === 404 && page.now.route.at === "pair") pairs.patch({ open: null, missing: true });
    else pairs.patch({ error: problem });
    if (problem.status === 401) throw problem;
  }
}

/** Opens a pair by its id or its name. */
export async function openPair(id: string): Promise<void> {
  if (wantedId !== id) {
    stopFollowing();
    pairs.patch({ open: null, progress: NO_PAIR_PROGRESS, missing: false, error: null });
  }
  wantedId = id;
  await refreshPair();
}

/** Another view was opened: the pair is not followed any more. */
export function closePair(): void {
  stopFollowing();
  wantedId = "";
}

function show(open: Pair): void {
  pairs.patch({ open, missing: false, error: null });
  if (open.status === "running") followPair(open);
  else pairs.patch({ progress: { ...pairs.now.progress, part: null } });
}

let following: { id: string; abort: AbortController } | null = null;

function stopFollowing(): void {
  following?.abort.abort();
  following = null;
}

/** The place of the last event of a round, in the events of a pair. */
const endOfRound = (round: number): string => `${round}.5.0.0`;

/** Follows the events of the current round and those after it; the rounds before it are loaded. */
function followPair({ id, round }: Pair): void {
  if (following?.id === id) return;
  stopFollowing();
  const abort = new AbortController();
  const own = { id, abort };
  following = own;
  const over = (): boolean => own !== following || pairs.now.open?.status !== "running";
  void follow({
    after: endOfRound(round - 1),
    path: (after) => pairCalls.events(id, after),
    received: ({ data }) => received(JSON.parse(data) as PairEvent) || abort.signal.aborted,
    isOver: async () => {
      await refreshPair().catch(() => undefined);
      return over();
    },
    signal: abort.signal,
  })
    .catch(checkRefused) // its rounds are still loaded whenever its threads change
    .finally(() => {
      if (following === own) following = null;
    });
}

/** True: the pair has ended. */
function received(event: PairEvent): boolean {
  pairs.patch({ progress: withPairEvent(pairs.now.progress, event) });
  if (event.type !== "heard") void refreshPair().catch(() => undefined);
  return event.type === "pair";
}

export const isPairActive = ({ status }: PairNote): boolean => status === "running";

/** The first line of the task. */
export const pairTitle = ({ task, name }: PairNote): string => task.trim().split("\n")[0] || name;

export async function startPair(body: NewPair): Promise<Pair | null> {
  const made = await attempt(pairCalls.start(body), body.cwd);
  if (made) go({ at: "pair", pair: made.id });
  return made;
}

async function changed(work: Promise<Pair>): Promise<boolean> {
  const done = await attempt(work);
  if (done) await refreshPair().catch(() => undefined);
  return done !== null;
}

export const stopPair = (id: string): Promise<boolean> => changed(pairCalls.stop(id));
export const resumePair = (id: string, body: PairResume): Promise<boolean> => changed(pairCalls.resume(id, body));
export const renamePair = (id: string, name: string): Promise<boolean> => changed(pairCalls.rename(id, name));

/** Makes another pair with the rounds up to that one, and shows it. */
export async function forkPair(id: string, round: number): Promise<void> {
  const made = await attempt(pairCalls.fork(id, round));
  if (made) go({ at: "pair", pair: made.id });
}
