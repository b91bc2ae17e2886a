// The jobs that the page knows: the newest ones, the number of running workers, and the open job.

import { http, Problem } from "../daemon/http.ts";
import type { Job, ShownJob } from "../daemon/wire.ts";
import { refresher } from "./refresher.ts";
import { Store } from "./store.ts";

interface JobsState {
  items: readonly Job[]; // the newest first
  workers: number;
  listed: boolean;
  open: ShownJob | null;
  missing: boolean; // the job to open does not exist
}

export const jobs = new Store<JobsState>({ items: [], workers: 0, listed: false, open: null, missing: false });

export const isJobActive = ({ status }: Job): boolean =>
  status === "queued" || status === "running" || status === "waiting";

/** The job is stopped until somebody acts. */
export const needsAttention = ({ status }: Job): boolean => status === "blocked" || status === "conflict";

/** The first line of the prompt. */
export const jobTitle = (job: Job): string => job.prompt.trim().split("\n")[0] ?? "";

const MAX_LISTED = 200;
const PAUSE_MS = 250; // a running job changes many times a second

/** Loads the list and the open job. */
export const refreshJobs = refresher(load, PAUSE_MS);

async function load(): Promise<void> {
  const { items, workers } = await http.jobs(MAX_LISTED);
  jobs.patch({ items, workers, listed: true });
  const open = jobs.now.open;
  if (open) putJob(await http.job(open.id)); // the list has fewer fields
}

export function putJob(job: ShownJob): void {
  const { items, open } = jobs.now;
  const known = items.some((each) => each.id === job.id);
  jobs.patch({
    items: known ? items.map((each) => (each.id === job.id ? job : each)) : [job, ...items],
    open: open?.id === job.id ? job : open,
  });
}

/** Opens a job by its id. Null: it does not exist. */
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
