// The jobs as the page knows them: the newest, how many workers are alive, and the one that is open.

import { http, Problem } from "./http.ts";
import { refresher } from "./refresher.ts";
import { Store } from "./store.ts";
import type { Job, JobStatus, ShownJob } from "./wire.ts";

export interface Jobs {
  items: readonly Job[]; // the newest first
  workers: number;
  listed: boolean;
  open: ShownJob | null;
  missing: boolean; // the one that was to be opened is not there
}

export const jobs = new Store<Jobs>({ items: [], workers: 0, listed: false, open: null, missing: false });

export const UNDER_WAY: readonly JobStatus[] = ["queued", "running", "waiting"];
export const isUnderWay = (job: Job): boolean => UNDER_WAY.includes(job.status);

/** What it is called: the first line of its prompt. */
export const headline = (job: Job): string => job.prompt.trim().split("\n")[0] ?? "";

/** Somebody must act before it goes on. */
export const needsYou = (job: Job): boolean => job.status === "blocked" || job.status === "conflict";

const SHOWN = 200;
const EVERY_MS = 250; // at most: a job that works says a lot

/** The list, and the open one. */
export const refreshJobs = refresher(load, EVERY_MS);

async function load(): Promise<void> {
  const { items, workers } = await http.jobs(SHOWN);
  jobs.patch({ items, workers, listed: true });
  const open = jobs.now.open;
  if (open) heardOf(await http.job(open.id)); // the list tells less of it
}

/** The daemon's newest word on a job. */
export function heardOf(job: ShownJob): void {
  const { items, open } = jobs.now;
  const known = items.some((each) => each.id === job.id);
  jobs.patch({
    items: known ? items.map((each) => (each.id === job.id ? job : each)) : [job, ...items],
    open: open?.id === job.id ? job : open,
  });
}

/** Opens a job by its id; null: it is not there. */
export async function openJob(id: string): Promise<Job | null> {
  if (jobs.now.open?.id !== id) jobs.patch({ open: null, missing: false });
  try {
    const job = await http.job(id);
    jobs.patch({ open: job, missing: false });
    return job;
  } catch (problem) {
    if (!(problem instanceof Problem && problem.status === 404)) throw problem;
    jobs.patch({ open: null, missing: true });
    return null;
  }
}
