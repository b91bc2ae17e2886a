// One job: how it stands, what a person can do about it, what came of it, and its conversation as it goes on.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { cancelJob, retryJob, type Retry } from "./actions.ts";
import { Turns, useScroll } from "./Conversation.tsx";
import { Again, Back, Caret, Stop, Warning } from "./icons.tsx";
import { headline, isUnderWay, jobs } from "./jobs.ts";
import { NoWorker, StatusChip } from "./Jobs.tsx";
import { Markdown } from "./Markdown.tsx";
import type { Conversation } from "./state.ts";
import { Output } from "./Steps.tsx";
import { useStore } from "./store.ts";
import { daemon, go, page } from "./sync.ts";
import { ToList } from "./ThreadHead.tsx";
import { visible } from "./visible.ts";
import type { Job, Marker, ShownJob } from "./wire.ts";
import { dollars, duration, moment, plural, reasonWords, shortPath, times } from "./words.ts";

export function JobView() {
  const job = useStore(jobs, (now) => now.open);
  const missing = useStore(jobs, (now) => now.missing);
  const conversation = useStore(daemon, (now) => now.conversation);
  if (missing) {
    return (
      <div class="empty">
        <h1>This job is not here</h1>
        <p>Its thread was deleted, or the address is of another Clew.</p>
      </div>
    );
  }
  if (!job) return <div class="empty" aria-busy="true" />;
  const own = conversation?.thread.id === job.thread_id ? conversation : null;
  return <Opened key={job.id} job={job} conversation={own} />;
}

function Opened({ job, conversation }: { job: ShownJob; conversation: Conversation | null }) {
  const progress = useStore(daemon, (now) => now.progress);
  const scroll = useScroll(conversation, progress, isUnderWay(job));
  return (
    <div class="view" data-testid="job-view">
      <Head job={job} />
      <div class="scroll" ref={scroll.box} onScroll={scroll.moved} tabIndex={0} role="region" aria-label="Job">
        <div class="column" ref={scroll.inside}>
          <NoWorker jobs={[job]} />
          <Standing job={job} />
          {job.result !== null && (
            <section class="card job-card" data-testid="job-result" aria-label="Result">
              <h2>Result</h2>
              <Markdown text={job.result} />
            </section>
          )}
          <Facts job={job} />
          {job.markers.length > 0 && <Markers markers={job.markers} />}
          {conversation && <Turns conversation={conversation} fixed />}
        </div>
      </div>
    </div>
  );
}

function Head({ job }: { job: Job }) {
  const home = useStore(page, (now) => now.settings?.home);
  const stoppable = isUnderWay(job) || job.status === "blocked" || job.status === "conflict";
  return (
    <header class="head">
      <ToList />
      <button class="quiet" type="button" aria-label="All jobs" title="All jobs" onClick={() => go({ at: "jobs" })}>
        <Back />
      </button>
      <div class="head-names">
        <h1 title={visible(job.prompt)}>{visible(headline(job))}</h1>
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

/** What it waits for, or what is wrong and the ways out. */
function Standing({ job }: { job: Job }) {
  if (job.status === "succeeded" || job.status === "running") return null;
  if (job.status === "queued" || job.status === "waiting") return <Waits job={job} />;
  return (
    <div class="ending problem" data-testid="job-error" role="group" aria-label="What is wrong">
      <p>
        <Warning /> <strong>{job.error ? visible(job.error.message) : `The job is ${job.status}.`}</strong>
      </p>
      {job.error?.hint && needsHand(job) && <p>{visible(job.error.hint)}</p>}
      {job.conflicts.length > 0 && (
        <ul class="conflicts" data-testid="job-conflicts">
          {job.conflicts.map((path) => (
            <li key={path}>
              <code>{visible(path)}</code>
            </li>
          ))}
        </ul>
      )}
      {job.stderr_tail && (
        <details class="fold">
          <summary>
            <Caret size={12} /> What the agent's program said
          </summary>
          <Output label="Standard error" text={job.stderr_tail} failed />
        </details>
      )}
      <WaysOut job={job} />
    </div>
  );
}

/** More is to be done than to press one of the buttons. */
const needsHand = (job: Job): boolean => job.status === "blocked" || (job.status === "failed" && job.outcome === null);

function Waits({ job }: { job: Job }) {
  const until = job.wake_at ?? job.not_before;
  const later = until !== null && Date.parse(until) > Date.now();
  if (!later && !job.error) return null;
  return (
    <p class="note plain" data-testid="job-waits" role="status">
      {later && until ? `Goes on at ${moment(until)}. ` : ""}
      {job.error && visible(job.error.message)}
    </p>
  );
}

function WaysOut({ job }: { job: Job }) {
  if (job.status === "conflict") {
    return (
      <div class="row">
        <Retrying job={job} how={{ restore: true }} testid="job-restore" title="What is there now is saved first">
          Put the files back
        </Retrying>
        <Retrying job={job} how={{ keep: true }} testid="job-keep" title="Goes on with the files as they are now">
          Keep the files
        </Retrying>
      </div>
    );
  }
  return (
    <div class="row">
      <Retrying job={job} how={{ resume: true }} testid="job-resume" title="In its session, where it stopped">
        <Again size={13} /> Go on
      </Retrying>
      <Retrying job={job} how={{ resume: false }} testid="job-fresh" title="In a fresh session, with the prompt">
        Start over
      </Retrying>
      {job.checkpoint && (
        <Retrying job={job} how={{ restore: true }} testid="job-restore" title="Puts the files of the last checkpoint back first">
          Put the files back and go on
        </Retrying>
      )}
      {job.checkpoint && (
        <Retrying job={job} how={{ keep: true }} testid="job-keep" title="Goes on with the files as they are now">
          Keep the files and go on
        </Retrying>
      )}
    </div>
  );
}

interface RetryButton {
  job: Job;
  how: Retry;
  testid: string;
  title: string;
  children: ComponentChildren;
}

function Retrying({ job, how, testid, title, children }: RetryButton) {
  const [busy, setBusy] = useState(false);
  const act = async (): Promise<void> => {
    setBusy(true);
    await retryJob(job, how);
    setBusy(false);
  };
  return (
    <button type="button" data-testid={testid} title={title} disabled={busy} onClick={() => void act()}>
      {children}
    </button>
  );
}

/** How far it has come: the agent's messages, the newest first. */
function Markers({ markers }: { markers: readonly Marker[] }) {
  return (
    <details class="fold job-markers" data-testid="job-markers">
      <summary>
        <Caret size={12} /> How far it has come: {plural(markers.length, "message")}
      </summary>
      <ol reversed>
        {[...markers].reverse().map((marker) => (
          <li key={marker.number} value={marker.number}>
            <time dateTime={marker.at}>{moment(marker.at)}</time>
            {marker.run !== null && ` · run ${marker.run}`}
            {marker.text && ` · ${visible(marker.text)}`}
          </li>
        ))}
      </ol>
    </details>
  );
}

function Facts({ job }: { job: Job }) {
  const took = job.started_at ? Date.parse(job.ended_at ?? new Date().toISOString()) - Date.parse(job.started_at) : null;
  const session = [
    job.resume_count > 0 ? `resumed ${times(job.resume_count)}` : "",
    job.reason ? `last fresh: ${reasonWords(job.reason)}` : "",
  ];
  const limits = [
    job.limits.timeout_s !== null ? `${duration(job.limits.timeout_s * 1000)} a run` : "",
    plural(job.limits.max_resumes, "resume"),
    job.limits.deadline_at ? `until ${moment(job.limits.deadline_at)}` : "",
  ];
  const rows: [string, string | null][] = [
    ["agent", [job.agent, job.model, job.permissions].filter(Boolean).join(" · ")],
    ["key", job.key],
    ["session", session.filter(Boolean).join(" · ") || null],
    ["limits", limits.filter(Boolean).join(" · ")],
    ["checkpoints", job.checkpoint ? `refs/clew/jobs/${job.id}` : null],
    ["worker", job.worker],
    ["submitted", moment(job.created_at)],
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
