// One job: its state and what to do about it, its result, its progress, and its conversation.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Turns } from "../conversation/Conversation.tsx";
import { ErrorOutput } from "../conversation/Ending.tsx";
import { useStickToEnd } from "../conversation/scroll.ts";
import type { Job, JobDetail, Marker } from "../daemon/wire.ts";
import { cancelJob, retryJob, type RetryOptions } from "../state/actions.ts";
import { isJobActive, jobs, jobTitle } from "../state/jobs.ts";
import { page } from "../state/page.ts";
import type { ConversationState } from "../state/reducer.ts";
import { go } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { daemon } from "../state/sync.ts";
import { dateTime, dollars, duration, plural, shortPath, times } from "../text/format.ts";
import { reasonText } from "../text/labels.ts";
import { Markdown } from "../text/Markdown.tsx";
import { visible } from "../text/visible.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { Again, Back, Caret, Stop, Warning } from "../ui/icons.tsx";
import { NoWorker, StatusChip } from "./List.tsx";

export function JobView() {
  const job = useStore(jobs, (now) => now.open);
  const missing = useStore(jobs, (now) => now.missing);
  const conversation = useStore(daemon, (now) => now.conversation);
  if (missing) {
    return (
      <div class="empty">
        <h1>Job not found</h1>
        <p>Its thread was deleted, or the address belongs to another Clew.</p>
      </div>
    );
  }
  if (!job) return <div class="empty" aria-busy="true" />;
  const isOfJob = conversation?.thread.id === job.thread_id;
  return <LoadedJob key={job.id} job={job} conversation={isOfJob ? conversation : null} />;
}

function LoadedJob({ job, conversation }: { job: JobDetail; conversation: ConversationState | null }) {
  const progress = useStore(daemon, (now) => now.progress);
  const scroll = useStickToEnd(conversation, progress, isJobActive(job));
  return (
    <div class="view" data-testid="job-view">
      <Header job={job} />
      <div class="scroll" ref={scroll.box} onScroll={scroll.onScroll} tabIndex={0} role="region" aria-label="Job">
        <div class="column" ref={scroll.content}>
          <NoWorker jobs={[job]} />
          <StateDetails job={job} />
          {job.result !== null && (
            <section class="card job-card" data-testid="job-result" aria-label="Result">
              <h2>Result</h2>
              <Markdown text={job.result} />
            </section>
          )}
          <Details job={job} />
          {job.markers.length > 0 && <Markers markers={job.markers} />}
          {conversation && <Turns conversation={conversation} readOnly />}
        </div>
      </div>
    </div>
  );
}

function Header({ job }: { job: Job }) {
  const home = useStore(page, (now) => now.settings?.home);
  const stoppable = isJobActive(job) || job.status === "blocked" || job.status === "conflict";
  return (
    <header class="head">
      <BackToList />
      <button class="quiet" type="button" aria-label="All jobs" title="All jobs" onClick={() => go({ at: "jobs" })}>
        <Back />
      </button>
      <div class="head-names">
        <h1 title={visible(job.prompt)}>{visible(jobTitle(job))}</h1>
        <p>
          <StatusChip status={job.status} />
          <span class="path" title={visible(job.cwd)}>
            {visible(shortPath(job.cwd, home))}
          </span>
          <span class="wide">{plural(job.runs, "run")}</span>
          {job.cost_usd > 0 && <span class="wide">{dollars(job.cost_usd)}</span>}
        </p>
      </div>
      <div class="head-actions">
        {stoppable && (
          <button
            class="danger"
            type="button"
            data-testid="job-cancel"
            disabled={job.cancel_requested}
            onClick={() => void cancelJob(job)}
          >
            <Stop size={13} /> {job.cancel_requested ? "Stopping…" : "Cancel"}
          </button>
        )}
      </div>
    </header>
  );
}

/** What the job waits for, or what is wrong and how to continue. */
function StateDetails({ job }: { job: Job }) {
  if (job.status === "succeeded" || job.status === "running") return null;
  if (job.status === "queued" || job.status === "waiting") return <WaitingNote job={job} />;
  return (
    <div class="ending problem" data-testid="job-error" role="group" aria-label="What is wrong">
      <p>
        <Warning /> <strong>{job.error ? visible(job.error.message) : `The job is ${job.status}.`}</strong>
      </p>
      {job.error?.hint && needsManualStep(job) && <p>{visible(job.error.hint)}</p>}
      {job.conflicts.length > 0 && (
        <ul class="conflicts" data-testid="job-conflicts">
          {job.conflicts.map((path) => (
            <li key={path}>
              <code>{visible(path)}</code>
            </li>
          ))}
        </ul>
      )}
      <ErrorOutput text={job.stderr_tail} />
      <Remedies job={job} />
    </div>
  );
}

/** Pressing one of the buttons is not enough. */
const needsManualStep = (job: Job): boolean => job.status === "blocked" || (job.status === "failed" && job.outcome === null);

function WaitingNote({ job }: { job: Job }) {
  const until = job.wake_at ?? job.not_before;
  const isLater = until !== null && Date.parse(until) > Date.now();
  if (!isLater && !job.error) return null;
  return (
    <p class="note plain" data-testid="job-waits" role="status">
      {isLater && until ? `Continues at ${dateTime(until)}. ` : ""}
      {job.error && visible(job.error.message)}
    </p>
  );
}

function Remedies({ job }: { job: Job }) {
  if (job.status === "conflict") {
    return (
      <div class="row">
        <RetryButton job={job} options={{ restore: true }} testid="job-restore" title="The current files are saved first">
          Restore the files
        </RetryButton>
        <RetryButton job={job} options={{ keep: true }} testid="job-keep" title="Continues with the files as they are now">
          Keep the files
        </RetryButton>
      </div>
    );
  }
  return (
    <div class="row">
      <RetryButton job={job} options={{ resume: true }} testid="job-resume" title="Resumes its session where it stopped">
        <Again size={13} /> Continue
      </RetryButton>
      <RetryButton job={job} options={{ resume: false }} testid="job-fresh" title="Starts a fresh session with the prompt">
        Start over
      </RetryButton>
      {job.checkpoint && (
        <RetryButton
          job={job}
          options={{ restore: true }}
          testid="job-restore"
          title="Restores the files of the last checkpoint first"
        >
          Restore the files and continue
        </RetryButton>
      )}
      {job.checkpoint && (
        <RetryButton job={job} options={{ keep: true }} testid="job-keep" title="Continues with the files as they are now">
          Keep the files and continue
        </RetryButton>
      )}
    </div>
  );
}

interface RetryButtonProps {
  job: Job;
  options: RetryOptions;
  testid: string;
  title: string;
  children: ComponentChildren;
}

function RetryButton({ job, options, testid, title, children }: RetryButtonProps) {
  const [busy, setBusy] = useState(false);
  const act = async (): Promise<void> => {
    setBusy(true);
    await retryJob(job, options);
    setBusy(false);
  };
  return (
    <button type="button" data-testid={testid} title={title} disabled={busy} onClick={() => void act()}>
      {children}
    </button>
  );
}

/** The progress of the job: the agent's messages, the newest first. */
function Markers({ markers }: { markers: readonly Marker[] }) {
  return (
    <details class="fold job-markers" data-testid="job-markers">
      <summary>
        <Caret size={12} /> Progress: {plural(markers.length, "message")}
      </summary>
      <ol reversed>
        {[...markers].reverse().map((marker) => (
          <li key={marker.number} value={marker.number}>
            <time dateTime={marker.at}>{dateTime(marker.at)}</time>
            {marker.run !== null && ` · run ${marker.run}`}
            {marker.text && ` · ${visible(marker.text)}`}
          </li>
        ))}
      </ol>
    </details>
  );
}

function Details({ job }: { job: Job }) {
  const took = job.started_at ? Date.parse(job.ended_at ?? new Date().toISOString()) - Date.parse(job.started_at) : null;
  const session = [
    job.resume_count > 0 ? `resumed ${times(job.resume_count)}` : "",
    job.reason ? `last fresh: ${reasonText(job.reason)}` : "",
  ];
  const limits = [
    job.limits.timeout_s !== null ? `${duration(job.limits.timeout_s * 1000)} per run` : "",
    plural(job.limits.max_resumes, "resume"),
    job.limits.deadline_at ? `until ${dateTime(job.limits.deadline_at)}` : "",
  ];
  const rows: [string, string | null][] = [
    ["agent", [job.agent, job.model, job.permissions].filter(Boolean).join(" · ")],
    ["key", job.key],
    ["priority", String(job.priority)],
    ["session", session.filter(Boolean).join(" · ") || null],
    ["limits", limits.filter(Boolean).join(" · ")],
    ["checkpoints", job.checkpoint ? `refs/clew/jobs/${job.id}` : null],
    ["worker", job.worker],
    ["submitted", dateTime(job.created_at)],
    ["took", took !== null && job.ended_at ? duration(took) : null],
  ];
  return (
    <details class="fold job-facts">
      <summary>
        <Caret size={12} /> About this job
      </summary>
      <dl class="facts">
        {rows
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </details>
  );
}
