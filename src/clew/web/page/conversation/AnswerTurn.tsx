// An agent's answer, both while it grows and as a finished turn. One component serves both, so that nothing moves on the
// screen when a run ends.

import { memo } from "preact/compat";
import { useRef, useState } from "preact/hooks";
import { isActive, type Run, type RunSummary, type Turn } from "../daemon/wire.ts";
import { fork } from "../state/actions.ts";
import { page } from "../state/page.ts";
import { textOf, type Part, type Progress } from "../state/progress.ts";
import { useStore } from "../state/store.ts";
import { Markdown } from "../text/Markdown.tsx";
import { Steps, useSteps } from "../tools/Steps.tsx";
import { Confirm } from "../ui/Confirm.tsx";
import { Check, Copy, Fork, Pencil } from "../ui/icons.tsx";
import { useNearViewport } from "../ui/viewport.ts";
import { RunActivity } from "./Activity.tsx";
import { Badge } from "./Badge.tsx";
import { RunEnding } from "./Ending.tsx";
import { TodoList } from "./TodoList.tsx";
import { TurnEditor } from "./TurnEditor.tsx";

interface Props {
  thread: string;
  turn: Turn | null; // null: the run is active, or ended without an answer
  number: number | null; // of the turn in the thread, as a rewind names it
  warned: boolean; // turns were brought in before it, about which its run has a warning
  run: Run | null; // if the view contains it
  prompt: Turn | null; // the turn that is answered
  progress: Progress | null;
  last: boolean;
  readOnly: boolean;
}

const FORK_EFFECT =
  "Starts a new thread with everything up to here. This thread and its session do not change. The first turn of the new " +
  "thread continues in a copy of the session, or says why it cannot.";

export const AnswerTurn = memo(({ thread, turn, number, warned, run, prompt, progress, last, readOnly }: Props) => {
  const ref = useRef<HTMLElement>(null);
  const near = useNearViewport(ref);
  const editing = useStore(page, (now) => turn !== null && now.editing === turn.id);
  const [forking, setForking] = useState(false);
  const live = !turn && run !== null && isActive(run.status) && !progress?.ended;
  const parts = useSteps(near && !live ? runWithSteps(turn, run, warned) : null, progress);
  const summary: RunSummary | null = turn?.run ?? run;
  const resumed = summary?.session_resumed ?? progress?.resumed ?? null;
  const agent = turn?.agent ?? run?.agent ?? null;
  const session = resumed === null ? "" : resumed ? "resumed" : "fresh";
  return (
    <article
      ref={ref}
      class={`turn assistant ${session}${live ? " live" : ""}`}
      data-testid="turn-assistant"
      data-turn={turn?.id}
      aria-label={agent ?? "Agent"}
      aria-busy={live}
    >
      {turn && editing ? (
        <TurnEditor thread={thread} turn={turn} busy={false} />
      ) : (
        <Content turn={turn} parts={parts} live={live} />
      )}
      {live && run && <RunActivity run={run} progress={progress} />}
      {live && progress && progress.todos.length > 0 && <TodoList todos={progress.todos} />}
      {summary && !live && !isActive(summary.status) && summary.status !== "answered" && (
        <RunEnding
          thread={thread}
          run={summary}
          hasAnswer={turn !== null}
          prompt={prompt?.id ?? null}
          text={prompt?.typed ?? prompt?.text ?? run?.typed ?? run?.prompt ?? ""}
          known={(prompt ? prompt.typed === null && prompt.text : run?.typed === null && run.prompt) || ""}
          place={last && !readOnly ? "last" : "read-only"}
        />
      )}
      {turn && !editing && (
        <footer>
          {summary && <Badge run={summary} agent={turn.agent} model={turn.model} />}
          <Actions turn={turn} number={number} readOnly={readOnly} fork={() => setForking(true)} />
        </footer>
      )}
      {turn && forking && (
        <Confirm text={FORK_EFFECT} button="Fork" act={() => fork(thread, turn)} close={() => setForking(false)} />
      )}
      {summary && !turn && !live && <Badge run={summary} agent={agent} model={run?.model ?? null} />}
    </article>
  );
});

/** The run whose steps are loaded when the turn comes near the viewport. */
function runWithSteps(turn: Turn | null, run: Run | null, warned: boolean): string | null {
  if (!turn) return run?.started_at ? run.id : null;
  // A fresh run may have a warning, or a note about omitted turns, without any tool call.
  return turn.steps > 0 || turn.run?.session_resumed === false || warned ? turn.run_id : null;
}

function Content({ turn, parts, live }: { turn: Turn | null; parts: readonly Part[] | null; live: boolean }) {
  if (!turn) return parts ? <Steps parts={parts} live={live} /> : null;
  if (!parts || parts.every((part) => part.kind === "text")) return <Markdown text={turn.text} />;
  if (turn.revision === 0 && textOf(parts) === turn.text) return <Steps parts={parts} live={false} />;
  // The text of an edited answer differs from that of its steps, so the steps are shown above it.
  return (
    <>
      <Steps parts={parts.filter((part) => part.kind !== "text")} live={false} />
      <Markdown text={turn.text} />
    </>
  );
}

interface ActionsProps {
  turn: Turn;
  number: number | null;
  readOnly: boolean;
  fork: () => void;
}

function Actions({ turn, number, readOnly, fork }: ActionsProps) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard?.writeText(turn.text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <div class="actions">
      <span>turn {number}</span>
      {turn.revision > 0 && <span>edited</span>}
      <button class="quiet" type="button" data-testid="copy-turn" onClick={() => void copy()}>
        {copied ? <Check size={13} /> : <Copy size={13} />} <span class="name">{copied ? "Copied" : "Copy"}</span>
      </button>
      {!readOnly && (
        <button class="quiet" type="button" data-testid="edit-turn" onClick={() => page.patch({ editing: turn.id })}>
          <Pencil size={13} /> <span class="name">Edit</span>
        </button>
      )}
      {!readOnly && (
        <button
          class="quiet"
          type="button"
          data-testid="fork-turn"
          title="Starts a new thread that continues from here; this one does not change"
          onClick={fork}
        >
          <Fork size={13} /> <span class="name">Fork</span>
        </button>
      )}
    </div>
  );
}
