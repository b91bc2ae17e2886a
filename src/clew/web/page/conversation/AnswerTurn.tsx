// An agent's answer: while it grows, and as the turn that it became. One component for both, so that the end of a run
// moves nothing on the screen.

import { memo } from "preact/compat";
import { useRef, useState } from "preact/hooks";
import { fork } from "./actions.ts";
import { page } from "./sync.ts";
import { useNow } from "./clock.ts";
import { Badge, SessionChip } from "./Badge.tsx";
import { Ending } from "./Ending.tsx";
import { Check, Copy, Fork, Pencil } from "./icons.tsx";
import { Markdown } from "./Markdown.tsx";
import { useNear } from "./near.ts";
import { isOpen, said, type Part, type Progress } from "./progress.ts";
import { Parts, useParts } from "./Steps.tsx";
import { useStore } from "./store.ts";
import { TodoCard } from "./TodoCard.tsx";
import { Confirm, TurnEditor } from "./UserTurn.tsx";
import { visibleLine } from "./visible.ts";
import { isActive, type Run, type RunNote, type Turn } from "./wire.ts";
import { duration } from "./words.ts";

interface Shown {
  thread: string;
  turn: Turn | null; // null: the run is going on, or ended without an answer
  run: Run | null; // when it is one of the view's
  prompt: Turn | null; // what it answers
  progress: Progress | null;
  last: boolean;
  fixed: boolean; // to be read, not to be changed or gone on from
}

const FORKS =
  "A new thread begins with all up to here. This one and its session stay as they are; the first turn over there goes on in a " +
  "copy of the session, or says why it cannot.";

export const AnswerTurn = memo(({ thread, turn, run, prompt, progress, last, fixed }: Shown) => {
  const ref = useRef<HTMLElement>(null);
  const near = useNear(ref);
  const editing = useStore(page, (now) => turn !== null && now.editing === turn.id);
  const [forking, setForking] = useState(false);
  const live = !turn && run !== null && isActive(run.status) && !progress?.ended;
  const parts = useParts(near && !live ? toldBy(turn, run) : null, progress);
  const note: RunNote | null = turn?.run ?? run;
  const knot = note?.session_resumed ?? progress?.resumed ?? null;
  const agent = turn?.agent ?? run?.agent ?? null;
  const state = knot === null ? "" : knot ? "resumed" : "fresh";
  return (
    <article
      ref={ref}
      class={`turn assistant ${state}${live ? " live" : ""}`}
      data-testid="turn-assistant"
      data-turn={turn?.id}
      aria-label={agent ?? "Agent"}
      aria-busy={live}
    >
      {turn && editing ? (
        <TurnEditor thread={thread} turn={turn} busy={false} />
      ) : (
        <Words turn={turn} parts={parts} live={live} />
      )}
      {live && run && <Doing run={run} progress={progress} />}
      {live && progress && progress.todos.length > 0 && <TodoCard todos={progress.todos} />}
      {note && !live && !isActive(note.status) && note.status !== "answered" && (
        <Ending
          thread={thread}
          run={note}
          kept={turn !== null}
          prompt={prompt?.id ?? null}
          text={prompt?.text ?? run?.prompt ?? ""}
          place={last && !fixed ? "last" : "fixed"}
        />
      )}
      {turn && !editing && (
        <footer>
          {note && <Badge run={note} agent={turn.agent} model={turn.model} />}
          <Actions turn={turn} fixed={fixed} fork={() => setForking(true)} />
        </footer>
      )}
      {turn && forking && <Confirm words={FORKS} verb="Fork" act={() => fork(thread, turn)} close={() => setForking(false)} />}
      {note && !turn && !live && note.session_resumed !== null && <Badge run={note} agent={agent} model={run?.model ?? null} />}
    </article>
  );
});

/** The run whose steps are worth asking for, when the turn comes near. */
function toldBy(turn: Turn | null, run: Run | null): string | null {
  if (!turn) return run?.started_at ? run.id : null;
  // A run that began afresh may have been warned, or may have left turns out, without a single tool.
  return turn.steps > 0 || turn.run?.session_resumed === false ? turn.run_id : null;
}

function Words({ turn, parts, live }: { turn: Turn | null; parts: readonly Part[] | null; live: boolean }) {
  if (!turn) return parts ? <Parts parts={parts} live={live} /> : null;
  if (!parts || parts.every((part) => part.kind === "text")) return <Markdown text={turn.text} />;
  // An edited answer, or one that was cut differently, is not what the steps say: then the steps stand above it.
  const told = said({ parts } as Progress);
  if (turn.revision === 0 && told === turn.text) return <Parts parts={parts} live={false} />;
  return (
    <>
      <Parts parts={parts.filter((part) => part.kind !== "text")} live={false} />
      <Markdown text={turn.text} />
    </>
  );
}

export function Doing({ run, progress }: { run: Run; progress: Progress | null }) {
  const open = progress?.parts.findLast(isOpen);
  const words =
    run.cancel_requested
      ? "stopping…"
      : run.status === "waiting"
        ? "waiting for you"
        : run.status === "queued"
          ? progress?.waitingFor === "slot"
            ? "waiting: as many agents are running as may"
            : "starting…"
          : open
            ? `running ${visibleLine(open.name)}…`
            : progress?.parts.length
              ? "writing…"
              : "thinking…";
  return (
    <p class="doing" data-testid="doing" role="status">
      <span class="pulse" aria-hidden="true" />
      {words}
      {progress?.startedAt && <Elapsed since={progress.startedAt} />}
      {progress && progress.resumed !== null && (
        <SessionChip resumed={progress.resumed} reason={progress.reason} fallback={progress.fellBack !== null} />
      )}
    </p>
  );
}

const PATIENCE_S = 5; // shorter waits need no clock

function Elapsed({ since }: { since: string }) {
  const now = useNow(1000);
  const ms = now - Date.parse(since);
  return ms < PATIENCE_S * 1000 ? null : <span aria-hidden="true">{duration(ms)}</span>;
}

function Actions({ turn, fixed, fork }: { turn: Turn; fixed: boolean; fork: () => void }) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard?.writeText(turn.text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <div class="actions">
      {turn.revision > 0 && <span>edited</span>}
      <button class="quiet" type="button" data-testid="copy-turn" onClick={() => void copy()}>
        {copied ? <Check size={13} /> : <Copy size={13} />} <span class="name">{copied ? "Copied" : "Copy"}</span>
      </button>
      {!fixed && (
        <button class="quiet" type="button" data-testid="edit-turn" onClick={() => page.patch({ editing: turn.id })}>
          <Pencil size={13} /> <span class="name">Edit</span>
        </button>
      )}
      {!fixed && (
        <button
          class="quiet"
          type="button"
          data-testid="fork-turn"
          title="A new thread that goes on from here; this one stays as it is"
          onClick={fork}
        >
          <Fork size={13} /> <span class="name">Fork</span>
        </button>
      )}
    </div>
  );
}
