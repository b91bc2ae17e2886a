// The list of jobs: prompt, status and cost of each.

import { useEffect, useState } from "preact/hooks";
import type { Job, JobStatus } from "../daemon/wire.ts";
import { isJobActive, jobs, needsAttention, refreshJobs } from "../state/jobs.ts";
import { page } from "../state/page.ts";
import { hashOf } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { age, baseName, dateTime, dollars, plural } from "../text/format.ts";
import { JOB_STATUS_LABELS } from "../text/labels.ts";
import { visible } from "../text/visible.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { useMinute } from "../ui/clock.ts";
import { Plus } from "../ui/icons.tsx";

type Filter = "all" | "active" | "attention" | "finished";

const FILTERS: Record<Filter, { label: string; matches: (job: Job) => boolean }> = {
  all: { label: "all", matches: () => true },
  active: { label: "active", matches: isJobActive },
  attention: { label: "need attention", matches: needsAttention },
  finished: { label: "finished", matches: (job) => !isJobActive(job) && !needsAttention(job) },
};

export function JobList() {
  const { items, workers, listed } = useStore(jobs, (now) => now);
  const [filter, setFilter] = useState<Filter>("all");
  const now = useMinute();
  useEffect(() => void refreshJobs().catch(() => undefined), []);
  const shown = items.filter(FILTERS[filter].matches);
  return (
    <div class="view" data-testid="jobs-view">
      <header class="head">
        <BackToList />
        <div class="head-names">
          <h1>Jobs</h1>
          <p data-testid="workers">{workers > 0 ? `${plural(workers, "worker")} running` : "no worker running"}</p>
        </div>
        <div class="head-actions">
          <select aria-label="Which jobs" value={filter} onChange={(event) => setFilter(event.currentTarget.value as Filter)}>
            {Object.entries(FILTERS).map(([name, { label }]) => (
              <option key={name} value={name}>
                {label}
              </option>
            ))}
          </select>
          <button type="button" data-testid="new-job" onClick={() => page.patch({ dialog: { is: "job" } })}>
            <Plus /> New job
          </button>
        </div>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Jobs">
        <div class="column wide">
          <NoWorker jobs={items} />
          {listed && shown.length === 0 && <NoJobs filtered={items.length > 0} />}
          <ul class="jobs" data-testid="jobs">
            {shown.map((job) => (
              <Row key={job.id} job={job} now={now} />
            ))}
          </ul>
        </div>
      </div>
    </div>
  );
}

/** What to start, when one of the jobs waits and no worker is running. */
export function NoWorker({ jobs }: { jobs: readonly Job[] }) {
  const text = jobs.find((job) => job.no_worker !== null)?.no_worker;
  if (!text) return null;
  return (
    <p class="note warning" data-testid="no-worker">
      {text.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}
    </p>
  );
}

const NoJobs = ({ filtered }: { filtered: boolean }) => (
  <div class="empty inside">
    <h2>{filtered ? "No such jobs" : "No jobs yet"}</h2>
    {!filtered && (
      <p>
        A job is work for minutes or hours. It survives time-outs, crashes and restarts: when it is interrupted, it continues
        where it stopped.
      </p>
    )}
  </div>
);

function Row({ job, now }: { job: Job; now: number }) {
  return (
    <li>
      <a class="job" href={hashOf({ at: "job", job: job.id })} data-testid="job-item" data-state={job.status}>
        <StatusChip status={job.status} />
        <span class="job-prompt">{visible(job.prompt)}</span>
        <span class="job-note">
          {isDelayed(job, now) && <span data-testid="job-starts">starts {dateTime(job.not_before ?? "")}</span>}
          {job.key && <span class="tag">{visible(job.key)}</span>}
          <span class="folder" title={visible(job.cwd)}>
            {visible(baseName(job.cwd))}
          </span>
          {job.runs > 1 && <span>{plural(job.runs, "run")}</span>}
          {job.cost_usd > 0 && <span>{dollars(job.cost_usd)}</span>}
          <time title={dateTime(job.created_at)} dateTime={job.created_at}>
            {age(job.created_at, now)}
          </time>
        </span>
      </a>
    </li>
  );
}

/** The job waits for its start time. */
const isDelayed = (job: Job, now: number): boolean =>
  job.status === "queued" && job.not_before !== null && Date.parse(job.not_before) > now;

const TONES: Record<JobStatus, string> = {
  queued: "plain",
  running: "plain",
  waiting: "plain",
  blocked: "warning",
  conflict: "warning",
  succeeded: "good",
  failed: "bad",
  cancelled: "plain",
};

export const StatusChip = ({ status }: { status: JobStatus }) => (
  <span class={`chip ${TONES[status]}`} data-testid="job-status">
    {status === "running" && <span class="pulse" aria-hidden="true" />} {JOB_STATUS_LABELS[status]}
  </span>
);
