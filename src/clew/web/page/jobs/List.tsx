// All jobs: what each is to do, how it stands, and what it cost.

import { useEffect, useState } from "preact/hooks";
import { useMinute } from "./clock.ts";
import { Plus } from "./icons.tsx";
import { isUnderWay, jobs, needsYou, refreshJobs } from "./jobs.ts";
import { useStore } from "./store.ts";
import { page } from "./sync.ts";
import { ToList } from "./ThreadHead.tsx";
import { visible } from "./visible.ts";
import type { Job, JobStatus } from "./wire.ts";
import { age, dollars, JOB_WORDS, lastName, moment, plural } from "./words.ts";

type Kind = "all" | "going" | "yours" | "over";

const KINDS: [Kind, string, (job: Job) => boolean][] = [
  ["all", "all", () => true],
  ["going", "under way", isUnderWay],
  ["yours", "need you", needsYou],
  ["over", "over", (job) => !isUnderWay(job) && !needsYou(job)],
];

export function Jobs() {
  const { items, workers, listed } = useStore(jobs, (now) => now);
  const [kind, setKind] = useState<Kind>("all");
  const now = useMinute();
  useEffect(() => void refreshJobs().catch(() => undefined), []);
  const fits = KINDS.find(([name]) => name === kind)?.[2] ?? (() => true);
  const shown = items.filter(fits);
  return (
    <div class="view" data-testid="jobs-view">
      <header class="head">
        <ToList />
        <div class="head-names">
          <h1>Jobs</h1>
          <p data-testid="workers">{workers > 0 ? `${plural(workers, "worker")} at work` : "no worker"}</p>
        </div>
        <div class="head-actions">
          <select aria-label="Which jobs" value={kind} onChange={(event) => setKind(event.currentTarget.value as Kind)}>
            {KINDS.map(([name, words]) => (
              <option key={name} value={name}>
                {words}
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
          {listed && shown.length === 0 && <None any={items.length > 0} />}
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

/** What to start, when one of them waits and nobody is there to take it up. */
export function NoWorker({ jobs }: { jobs: readonly Job[] }) {
  const words = jobs.find((job) => job.no_worker !== null)?.no_worker;
  if (!words) return null;
  return (
    <p class="note warning" data-testid="no-worker">
      {words.split("`").map((part, place) => (place % 2 ? <code key={place}>{part}</code> : part))}
    </p>
  );
}

const None = ({ any }: { any: boolean }) => (
  <div class="empty inside">
    <h2>{any ? "None of these" : "No jobs yet"}</h2>
    {!any && (
      <p>
        A job is work for minutes or hours. It outlives time-outs, crashes and restarts: when it is cut off, it goes on where it
        stopped.
      </p>
    )}
  </div>
);

function Row({ job, now }: { job: Job; now: number }) {
  return (
    <li>
      <a class="job" href={`#/jobs/${encodeURIComponent(job.id)}`} data-testid="job-item" data-state={job.status}>
        <StatusChip status={job.status} />
        <span class="job-prompt">{visible(job.prompt)}</span>
        <span class="job-note">
          {begins(job, now) && <span data-testid="job-begins">begins {moment(job.not_before ?? "")}</span>}
          {job.key && <span class="tag">{visible(job.key)}</span>}
          <span class="folder" title={visible(job.cwd)}>
            {visible(lastName(job.cwd))}
          </span>
          {job.runs > 1 && <span>{plural(job.runs, "run")}</span>}
          {job.cost_usd > 0 && <span>{dollars(job.cost_usd)}</span>}
          <time title={moment(job.created_at)} dateTime={job.created_at}>
            {age(job.created_at, now)}
          </time>
        </span>
      </a>
    </li>
  );
}

/** It waits for its time. */
const begins = (job: Job, now: number): boolean =>
  job.status === "queued" && job.not_before !== null && Date.parse(job.not_before) > now;

const TONES: Record<JobStatus, string> = {
  queued: "plain",
  running: "plain",
  waiting: "plain",
  blocked: "fresh",
  conflict: "fresh",
  succeeded: "resumed",
  failed: "fell",
  cancelled: "plain",
};

export const StatusChip = ({ status }: { status: JobStatus }) => (
  <span class={`chip ${TONES[status]}`} data-testid="job-status">
    {status === "running" && <span class="pulse" aria-hidden="true" />} {JOB_WORDS[status]}
  </span>
);
