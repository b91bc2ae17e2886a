// The open thread: its turns, the active run, its questions, the queued prompts, and the composer.

import type { ComponentProps } from "preact";
import { memo } from "preact/compat";
import { useEffect, useRef, useState } from "preact/hooks";
import { isActive, isRunning, type Question, type Run, type RunSummary, type Turn } from "../daemon/wire.ts";
import { page } from "../state/page.ts";
import type { ConversationState, DaemonState } from "../state/reducer.ts";
import { useStore } from "../state/store.ts";
import { daemon, loadEarlier } from "../state/sync.ts";
import { visible } from "../text/visible.ts";
import { ThreadHeader } from "../threads/Header.tsx";
import { QuestionCard } from "../tools/QuestionCard.tsx";
import { BackToList } from "../ui/BackToList.tsx";
import { ErrorBoundary } from "../ui/ErrorBoundary.tsx";
import { Send } from "../ui/icons.tsx";
import { AnswerTurn } from "./AnswerTurn.tsx";
import { Composer } from "./Composer.tsx";
import { OutsideBar } from "./Outside.tsx";
import { Queue } from "./Queue.tsx";
import { sortRuns } from "./runs.ts";
import { useStickToEnd } from "./scroll.ts";
import { Timeline } from "./Timeline.tsx";
import { UserTurn } from "./UserTurn.tsx";

export function Conversation() {
  const conversation = useStore(daemon, (now) => now.conversation);
  const missing = useStore(daemon, (now) => now.missing);
  if (missing) {
    return (
      <>
        <header class="head only-narrow">
          <BackToList />
        </header>
        <div class="empty">
          <h1>Thread not found</h1>
          <p>It was deleted, or the address belongs to another Clew. A thread is archived before it is deleted.</p>
        </div>
      </>
    );
  }
  if (!conversation) return <div class="empty" aria-busy="true" />;
  return <LoadedThread key={conversation.thread.id} conversation={conversation} />;
}

function LoadedThread({ conversation }: { conversation: ConversationState }) {
  const { thread, turns, runs, more } = conversation;
  const progress = useStore(daemon, (now) => now.progress);
  const scroll = useStickToEnd(conversation, progress);
  const { current, queued } = sortRuns(conversation);
  const lastAnswer = turns.findLast((turn) => turn.role === "assistant") ?? null;
  return (
    <>
      <ThreadHeader thread={thread} />
      <div class="scroll" ref={scroll.box} onScroll={scroll.onScroll} tabIndex={-1} data-thread={thread.id}>
        <div class="column" ref={scroll.content}>
          {more ? <LoadEarlier box={scroll.box} /> : <EmptyThread conversation={conversation} />}
          <ErrorBoundary resetKey={conversation}>
            <Turns conversation={conversation} />
          </ErrorBoundary>
        </div>
      </div>
      {scroll.away && (
        <button class="to-end" type="button" onClick={scroll.toEnd} aria-label="Scroll to the end">
          <Send />
        </button>
      )}
      <ErrorBoundary resetKey={turns}>
        <Timeline turns={turns} box={scroll.box} />
      </ErrorBoundary>
      <ErrorBoundary resetKey={queued}>
        <Queue runs={queued} busy={current !== null} />
      </ErrorBoundary>
      {conversation.outsideTurns > 0 && !runs.some((run) => isRunning(run.status)) && (
        <OutsideBar thread={thread.id} turns={conversation.outsideTurns} />
      )}
      <Composer thread={thread} runs={runs} lastAnswer={lastAnswer} onSent={scroll.toEnd} />
    </>
  );
}

const BoundedUserTurn = memo((props: ComponentProps<typeof UserTurn>) => (
  <ErrorBoundary resetKey={props} raw={props.turn.text}>
    <UserTurn {...props} />
  </ErrorBoundary>
));

const BoundedAnswerTurn = memo((props: ComponentProps<typeof AnswerTurn>) => (
  <ErrorBoundary resetKey={props} raw={props.turn?.text}>
    <AnswerTurn {...props} />
  </ErrorBoundary>
));

/** The turns of a conversation, with the answer that is growing. `readOnly`: they cannot be changed or continued. */
export function Turns({ conversation, readOnly = false }: { conversation: ConversationState; readOnly?: boolean }) {
  const { thread, turns, turnsBefore, runs } = conversation;
  const progress = useStore(daemon, (now) => now.progress);
  const { current, next, unanswered } = sortRuns(conversation);
  const shown = current ?? next ?? unanswered;
  const questions = openQuestions(conversation, progress, current);
  const busy = runs.some((run) => isActive(run.status) && !run.held);
  return (
    <>
      <div class="turns" role="log" aria-live="polite" aria-relevant="additions" aria-label="Conversation">
        {turns.map((turn, index) =>
          turn.role === "user" ? (
            <BoundedUserTurn
              key={turn.id}
              thread={thread.id}
              turn={turn}
              number={turnsBefore + index + 1}
              unanswered={unansweredRun(turn, shown)}
              laterTurns={turns.length - 1 - index}
              busy={busy}
              readOnly={readOnly}
            />
          ) : (
            <BoundedAnswerTurn
              key={`answer-${turn.run_id ?? turn.id}`}
              thread={thread.id}
              turn={turn}
              number={turnsBefore + index + 1}
              warned={turns[index - 2]?.outside === true && !turn.outside}
              run={runs.find((run) => run.id === turn.run_id) ?? null}
              prompt={promptBefore(turns, index)}
              progress={(turn.run_id && progress[turn.run_id]) || null}
              last={index === turns.length - 1 && !busy}
              readOnly={readOnly}
            />
          ),
        )}
        {next && !next.prompt_turn_id && <PendingPrompt run={next} />}
        {shown && (
          <BoundedAnswerTurn
            key={`answer-${shown.id}`}
            thread={thread.id}
            turn={null}
            number={null}
            warned={false}
            run={shown}
            prompt={turns.find((turn) => turn.id === shown.prompt_turn_id) ?? null}
            progress={progress[shown.id] ?? null}
            last
            readOnly={readOnly}
          />
        )}
      </div>
      {questions.map((question) => (
        <ErrorBoundary key={question.id} raw={question.input}>
          <QuestionCard question={question} />
        </ErrorBoundary>
      ))}
    </>
  );
}

function promptBefore(turns: readonly Turn[], index: number): Turn | null {
  for (let at = index - 1; at >= 0; at--) if (turns[at]?.role === "user") return turns[at] ?? null;
  return null;
}

/** The run that did not answer this prompt. Null when it is shown at the end, or when the prompt is being asked again. */
function unansweredRun(turn: Turn, shown: Run | null): RunSummary | null {
  const isAtEnd = shown && (shown.id === turn.run?.id || shown.prompt_turn_id === turn.id);
  return isAtEnd ? null : turn.run;
}

/** The open questions of the view, without those that were answered since it was loaded. */
function openQuestions(
  conversation: ConversationState,
  progress: DaemonState["progress"],
  current: Run | null,
): readonly Question[] {
  const parts = (current && progress[current.id]?.parts) || [];
  const answered = new Set(parts.flatMap((part) => (part.kind === "question" && part.answer ? [part.id] : [])));
  return conversation.questions.filter((question) => question.state === "open" && !answered.has(question.id));
}

const PendingPrompt = ({ run }: { run: Run }) => (
  <article class="turn user pending" data-testid="turn-user" aria-label="You">
    <div class="bubble">
      <div class="markdown plain">{visible(run.typed ?? run.prompt)}</div>
    </div>
  </article>
);

function EmptyThread({ conversation }: { conversation: ConversationState }) {
  const { thread, turns, runs } = conversation;
  const agents = useStore(page, (now) => now.agents);
  const agent = agents?.find((each) => each.name === thread.agent);
  if (turns.length > 0 || runs.length > 0) return null;
  return (
    <div class="empty inside">
      <h2>No messages yet</h2>
      <p>
        Write one below. {thread.agent} works in <code>{thread.cwd}</code> and keeps its session, so that the next turn sends
        only what is new.
      </p>
      {agent?.problem && (
        <p class="note warning">
          {agent.problem} {agent.hint}
        </p>
      )}
    </div>
  );
}

/** Loads the page before when it scrolls into view at the top; the turn that was first stays where it is. */
function LoadEarlier({ box }: { box: { current: HTMLDivElement | null } }) {
  const ref = useRef<HTMLButtonElement>(null);
  const [busy, setBusy] = useState(false);
  const load = async (): Promise<void> => {
    const view = box.current;
    if (!view || busy) return;
    setBusy(true);
    const first = view.querySelector<HTMLElement>(".turn");
    const before = first?.getBoundingClientRect().top ?? 0;
    await loadEarlier().catch(() => undefined);
    setBusy(false);
    requestAnimationFrame(() => {
      if (first?.isConnected) view.scrollTop += first.getBoundingClientRect().top - before;
    });
  };
  useEffect(() => {
    const element = ref.current;
    if (!element || busy) return undefined;
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && void load(), {
      root: box.current,
      rootMargin: "600px 0px 0px",
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [busy]);
  return (
    <button class="quiet earlier" type="button" ref={ref} data-testid="earlier" onClick={() => void load()}>
      {busy ? "Loading earlier turns…" : "Show earlier turns"}
    </button>
  );
}

