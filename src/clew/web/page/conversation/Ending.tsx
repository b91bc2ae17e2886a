// How a run ended that gave no complete answer, and what to do about it.

import { isActive, type RunSummary } from "../daemon/wire.ts";
import { ask, askAgain, continueAfterLimit, refillComposer, retry } from "../state/actions.ts";
import { jobs } from "../state/jobs.ts";
import { useStore } from "../state/store.ts";
import { daemon } from "../state/sync.ts";
import { dateTime } from "../text/format.ts";
import { RUN_STATUS_LABELS } from "../text/labels.ts";
import { visible } from "../text/visible.ts";
import { Caret, Warning } from "../ui/icons.tsx";
import { Output } from "../ui/Output.tsx";

interface Props {
  thread: string;
  run: RunSummary;
  hasAnswer: boolean; // an incomplete one, which is a turn
  prompt: string | null; // the id of the turn that was asked, if it is still there
  text: string; // of the prompt, as it was typed
  known: string; // the part of it that the person may not have typed
  place: "last" | "middle" | "read-only"; // in the middle, later turns would be archived
  askAgainHere?: () => void; // shows first what would be archived
}

const KEPT = "The answer so far is kept.";

/** What to do, where the daemon gives no hint. */
const HINTS: Record<string, string> = {
  usage_limit: "The session is kept. Ask again after the limit has reset, and it is resumed.",
  auth: "Log in with the agent's own command, then ask again. The session is kept.",
  billing: "Add credit where the account is billed, then ask again. The session is kept.",
  wrong_model: "Choose another model in the composer and ask again. The session is kept.",
  agent_missing: "Open Agents, at the lower left, to see what is missing.",
  failed: "Your prompt is kept. Ask again, or ask in a fresh session.",
};

/** Endings that are not errors. */
const STOPPED: Partial<Record<RunSummary["status"], string>> = {
  cancelled: "Stopped",
  interrupted: "Clew stopped during this run",
};
const STOPPED_OUTSIDE = "Interrupted outside Clew";

export function RunEnding(props: Props) {
  const { run, hasAnswer } = props;
  const job = useStore(jobs, (now) => now.open);
  const stopped = run.outside ? STOPPED_OUTSIDE : STOPPED[run.status];
  if (stopped) {
    return (
      <div class="ending" data-testid="ending">
        <p>
          {stopped}
          {hasAnswer ? `. ${KEPT}` : ", before the agent answered."}
        </p>
        <ErrorOutput text={run.stderr_tail} />
        <Remedies {...props} />
      </div>
    );
  }
  if (job?.run_id === run.id && job.error !== null && job.error.message === run.error?.message) {
    return <ShownWithJob hasAnswer={hasAnswer} stderr={job.stderr_tail ? "" : run.stderr_tail} />;
  }
  const isOfJob = job?.thread_id === props.thread; // the hints are for a person who can ask again
  const hint = run.error && !isOfJob ? (run.error.hint ?? HINTS[run.error.code ?? ""] ?? "") : "";
  return (
    <div class="ending problem" data-testid="run-error" role="group" aria-label="The run failed">
      <p>
        <Warning /> <strong>{run.error ? visible(run.error.message) : `The run ${RUN_STATUS_LABELS[run.status]}.`}</strong>
      </p>
      {run.resets_at && <p>The limit resets at {dateTime(run.resets_at)}.</p>}
      {hint && <p>{visible(hint)}</p>}
      {hasAnswer && <p>{KEPT}</p>}
      <ErrorOutput text={run.stderr_tail} />
      <Remedies {...props} />
    </div>
  );
}

/** The view of the job shows the error and what to do about it. */
const ShownWithJob = ({ hasAnswer, stderr }: { hasAnswer: boolean; stderr: string }) =>
  hasAnswer || stderr ? (
    <div class="ending" data-testid="ending">
      {hasAnswer && <p>{KEPT}</p>}
      <ErrorOutput text={stderr} />
    </div>
  ) : null;

export const ErrorOutput = ({ text }: { text: string }) =>
  text ? (
    <details class="fold">
      <summary>
        <Caret size={12} /> Error output of the agent
      </summary>
      <Output label="Standard error" text={text} failed />
    </details>
  ) : null;

function Remedies({ thread, run, hasAnswer, prompt, text, known, place, askAgainHere }: Props) {
  const waits = useStore(daemon, (now) => now.conversation?.runs.some((each) => each.not_before && isActive(each.status)));
  if (place === "read-only") return null;
  const limited = run.error?.code === "usage_limit";
  const canContinue = place === "last" && !limited && (hasAnswer || run.status === "timed_out");
  return (
    <div class="row">
      {place === "last" && limited && !waits && (
        <button
          type="button"
          data-testid="wait-for-limit"
          title="Queues a run in the same session until then; you can remove it at any time"
          onClick={() => void continueAfterLimit(run.id)}
        >
          Continue when the limit resets
        </button>
      )}
      {canContinue && (
        <button type="button" data-testid="continue-run" onClick={() => void ask(thread, "Continue.")}>
          Continue
        </button>
      )}
      {place === "last" && prompt && !canContinue && (
        <button
          type="button"
          data-testid="ask-again"
          title="Archives the prompt and sends it again; resumes the session when that is possible"
          onClick={() => void askAgain(thread, prompt)}
        >
          Ask again
        </button>
      )}
      {place === "last" && prompt && (
        <button type="button" data-testid="retry-run" onClick={() => void retry(thread, prompt, true)}>
          Ask again in a fresh session
        </button>
      )}
      {place === "middle" && askAgainHere && (
        <button type="button" data-testid="ask-again-here" title="Later turns are archived" onClick={askAgainHere}>
          Ask again here…
        </button>
      )}
      {(place === "middle" || !prompt) && text && (
        <button type="button" data-testid="prompt-to-composer" onClick={() => refillComposer(thread, text, known)}>
          Copy the prompt to the composer
        </button>
      )}
    </div>
  );
}
