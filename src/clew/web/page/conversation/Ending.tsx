// How a run ended that gave no whole answer, and the way out of it.

import { ask, askAgain, continueAfterLimit, refillComposer, retry } from "./actions.ts";
import { Caret, Warning } from "./icons.tsx";
import { jobs } from "./jobs.ts";
import { Output } from "./Steps.tsx";
import { useStore } from "./store.ts";
import { daemon } from "./sync.ts";
import { visible } from "./visible.ts";
import { isActive, type RunNote } from "./wire.ts";
import { moment, STATUS_WORDS } from "./words.ts";

interface Ended {
  thread: string;
  run: RunNote;
  kept: boolean; // something was said: it is a turn
  prompt: string | null; // the turn that was asked, if it stands
  text: string; // what was asked
  place: "last" | "amid" | "fixed"; // turns that follow would be archived; or it is only to be read
  again?: () => void; // asks first what may be archived
}

const KEPT = "What was said so far is kept.";

/** What to do, where the daemon does not say it. */
const HINTS: Record<string, string> = {
  usage_limit: "The session is kept: ask again when the limit is over, and it is resumed.",
  auth: "Log in with the agent's own command, then ask again. The session is kept.",
  billing: "Add credit where the account is billed, then ask again. The session is kept.",
  wrong_model: "Choose another model, above the composer, and ask again. The session is kept.",
  agent_missing: "See Agents, at the lower left, for what is missing.",
  failed: "Your prompt is kept. Ask again, or start afresh.",
};

const QUIET: Partial<Record<RunNote["status"], string>> = {
  cancelled: "Stopped",
  interrupted: "Clew itself was ended during this run",
};

export function Ending(ended: Ended) {
  const { run, kept } = ended;
  const job = useStore(jobs, (now) => now.open);
  const quiet = QUIET[run.status];
  if (quiet) {
    return (
      <div class="ending" data-testid="ending">
        <p>
          {quiet}
          {kept ? `. ${KEPT}` : ", before it had answered."}
        </p>
        <ProgramSaid text={run.stderr_tail} />
        <WayOut {...ended} />
      </div>
    );
  }
  if (job?.run_id === run.id && job.error !== null && job.error.message === run.error?.message) {
    return <ToldAbove kept={kept} said={job.stderr_tail ? "" : run.stderr_tail} />;
  }
  const ofJob = job?.thread_id === ended.thread; // nobody is there to ask it again
  const hint = run.error && !ofJob ? (run.error.hint ?? HINTS[run.error.code ?? ""] ?? "") : "";
  return (
    <div class="ending problem" data-testid="run-error" role="group" aria-label="The run failed">
      <p>
        <Warning /> <strong>{run.error ? visible(run.error.message) : `The run ${STATUS_WORDS[run.status]}.`}</strong>
      </p>
      {run.resets_at && <p>The limit resets at {moment(run.resets_at)}.</p>}
      {hint && <p>{visible(hint)}</p>}
      {kept && <p>{KEPT}</p>}
      <ProgramSaid text={run.stderr_tail} />
      <WayOut {...ended} />
    </div>
  );
}

/** The job itself says what is wrong, and has the ways out. */
const ToldAbove = ({ kept, said }: { kept: boolean; said: string }) =>
  kept || said ? (
    <div class="ending" data-testid="ending">
      {kept && <p>{KEPT}</p>}
      <ProgramSaid text={said} />
    </div>
  ) : null;

const ProgramSaid = ({ text }: { text: string }) =>
  text ? (
    <details class="fold">
      <summary>
        <Caret size={12} /> What the agent's program said
      </summary>
      <Output label="Standard error" text={text} failed />
    </details>
  ) : null;

function WayOut({ thread, run, kept, prompt, text, place, again }: Ended) {
  if (place === "fixed") return null;
  const limited = run.error?.code === "usage_limit";
  const waits = useStore(daemon, (now) => now.conversation?.runs.some((each) => each.not_before && isActive(each.status)));
  const goOn = place === "last" && !limited && (kept || run.status === "timed_out");
  return (
    <div class="row">
      {place === "last" && limited && !waits && (
        <button
          type="button"
          data-testid="wait-for-limit"
          title="Queued until then, in the same session; it can be removed at any time"
          onClick={() => void continueAfterLimit(run.id)}
        >
          Continue when the limit resets
        </button>
      )}
      {goOn && (
        <button type="button" data-testid="go-on" onClick={() => void ask(thread, "Go on.")}>
          Go on
        </button>
      )}
      {place === "last" && prompt && !goOn && (
        <button
          type="button"
          data-testid="ask-again"
          title="Takes the prompt back and asks it once more; resumes the session when that is possible"
          onClick={() => void askAgain(thread, prompt)}
        >
          Ask again
        </button>
      )}
      {place === "last" && prompt && (
        <button type="button" data-testid="retry-run" onClick={() => void retry(thread, prompt)}>
          Ask again in a fresh session
        </button>
      )}
      {place === "amid" && again && (
        <button type="button" data-testid="ask-again-here" title="What follows is archived" onClick={again}>
          Ask again here…
        </button>
      )}
      {(place === "amid" || !prompt) && text && (
        <button type="button" data-testid="prompt-back" onClick={() => refillComposer(thread, text)}>
          Put the prompt into the composer
        </button>
      )}
    </div>
  );
}
