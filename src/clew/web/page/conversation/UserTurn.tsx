// A prompt of the user. It can be edited, asked again or archived; before that, one line says what it does to the agent's
// session.

import type { ComponentChildren } from "preact";
import { memo } from "preact/compat";
import { useRef, useState } from "preact/hooks";
import type { RunSummary, Turn } from "../daemon/wire.ts";
import { retry, truncate } from "../state/actions.ts";
import { page } from "../state/page.ts";
import { useStore } from "../state/store.ts";
import { dateTime, plural } from "../text/format.ts";
import { Markdown } from "../text/Markdown.tsx";
import { Steps, useSteps } from "../tools/Steps.tsx";
import { Confirm } from "../ui/Confirm.tsx";
import { Again, Back, Pencil } from "../ui/icons.tsx";
import { useNearViewport } from "../ui/viewport.ts";
import { Badge } from "./Badge.tsx";
import { RunEnding } from "./Ending.tsx";
import { OutsideChip } from "./Outside.tsx";
import { TurnEditor, useConsequence } from "./TurnEditor.tsx";

interface Props {
  thread: string;
  turn: Turn;
  number: number; // in the thread, as a rewind names it
  unanswered: RunSummary | null; // the run that ended without answering it, unless that is shown elsewhere
  laterTurns: number;
  busy: boolean; // a run is active
  readOnly: boolean;
}

type Change = "retry" | "truncate";

/** Memoized: a long thread has thousands of turns, and its end changes many times a second. */
export const UserTurn = memo(({ thread, turn, number, unanswered, laterTurns, busy, readOnly }: Props) => {
  const editing = useStore(page, (now) => now.editing === turn.id);
  const [change, setChange] = useState<Change | null>(null);
  return (
    <article class="turn user" data-testid="turn-user" data-turn={turn.id} aria-label="You">
      <div class="bubble">
        {editing ? <TurnEditor thread={thread} turn={turn} busy={busy} /> : <Markdown text={turn.typed ?? turn.text} breaks />}
      </div>
      {turn.outside && <OutsideChip />}
      {!editing && (
        <div class="actions">
          <span>turn {number}</span>
          <time title={dateTime(turn.created_at)} dateTime={turn.created_at}>
            {new Date(turn.created_at).toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false })}
          </time>
          {turn.revision > 0 && <span title={plural(turn.revision, "edit")}>edited</span>}
          {!readOnly && <Actions turn={turn} busy={busy} choose={setChange} />}
        </div>
      )}
      {unanswered && (
        <UnansweredRun run={unanswered}>
          <RunEnding
            thread={thread}
            run={unanswered}
            hasAnswer={false}
            prompt={turn.id}
            text={turn.typed ?? turn.text}
            known={turn.typed === null ? turn.text : ""}
            place={readOnly ? "read-only" : laterTurns > 0 || busy ? "middle" : "last"}
            askAgainHere={() => setChange("retry")}
          />
        </UnansweredRun>
      )}
      {change && (
        <ConfirmChange thread={thread} turn={turn} laterTurns={laterTurns} change={change} close={() => setChange(null)} />
      )}
    </article>
  );
});

/** The steps and the cost of a run, around how it ended. */
function UnansweredRun({ run, children }: { run: RunSummary; children: ComponentChildren }) {
  const ref = useRef<HTMLDivElement>(null);
  const near = useNearViewport(ref);
  const parts = useSteps(near && run.started_at ? run.id : null);
  return (
    <div class="unanswered" ref={ref}>
      {parts && <Steps parts={parts} live={false} />}
      {children}
      <Badge run={run} agent={null} model={null} />
    </div>
  );
}

const Actions = ({ turn, busy, choose }: { turn: Turn; busy: boolean; choose: (change: Change) => void }) => (
  <>
    <button class="quiet" type="button" data-testid="edit-turn" onClick={() => page.patch({ editing: turn.id })}>
      <Pencil size={13} /> <span class="name">Edit</span>
    </button>
    <button class="quiet" type="button" data-testid="retry-turn" onClick={() => choose("retry")}>
      <Again size={13} /> <span class="name">Ask again</span>
    </button>
    <button
      class="quiet"
      type="button"
      data-testid="truncate-turn"
      disabled={busy}
      title={busy ? "Not while a run is active" : "Archives this turn and all later ones"}
      onClick={() => choose("truncate")}
    >
      <Back size={13} /> <span class="name">Archive from here</span>
    </button>
  </>
);

interface ConfirmChangeProps {
  thread: string;
  turn: Turn;
  laterTurns: number;
  change: Change;
  close: () => void;
}

function ConfirmChange({ thread, turn, laterTurns, change, close }: ConfirmChangeProps) {
  const consequence = useConsequence(thread, turn.id);
  const archived = change === "retry" ? laterTurns : laterTurns + 1;
  const ownText = archived > 0 ? `Archives ${plural(archived, "turn")}.` : ""; // until the daemon has answered
  const refills = change === "truncate" ? "Its text goes back into the composer." : "";
  return (
    <Confirm
      text={`${consequence?.[change] ?? ownText} ${refills}`}
      button={change === "retry" ? "Ask again" : "Archive"}
      act={() => (change === "retry" ? retry(thread, turn.id) : truncate(thread, turn))}
      close={close}
    />
  );
}
