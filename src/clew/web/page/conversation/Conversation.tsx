// The open thread: its turns, the run that goes on, what it asks, what waits, and the composer.

import type { ComponentProps } from "preact";
import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { AnswerTurn } from "./AnswerTurn.tsx";
import { arranged } from "./arrangement.ts";
import { Composer } from "./Composer.tsx";
import { Guard } from "./Guard.tsx";
import { Send } from "./icons.tsx";
import { Queue } from "./Queue.tsx";
import { QuestionCard } from "./Questions.tsx";
import type { Conversation as Shown, State } from "./state.ts";
import { useStore } from "./store.ts";
import { daemon, loadEarlier, page } from "./sync.ts";
import { ThreadHead, ToList } from "./ThreadHead.tsx";
import { Timeline } from "./Timeline.tsx";
import { UserTurn } from "./UserTurn.tsx";
import { visible } from "./visible.ts";
import { isActive, type Question, type Run, type RunNote, type Turn } from "./wire.ts";

export function Conversation() {
  const conversation = useStore(daemon, (now) => now.conversation);
  const missing = useStore(daemon, (now) => now.missing);
  if (missing) {
    return (
      <>
        <header class="head only-narrow">
          <ToList />
        </header>
        <div class="empty">
          <h1>This thread is not here</h1>
          <p>It was deleted, or the address is of another Clew. An archive was written before a thread was deleted.</p>
        </div>
      </>
    );
  }
  if (!conversation) return <div class="empty" aria-busy="true" />;
  return <Opened key={conversation.thread.id} conversation={conversation} />;
}

function Opened({ conversation }: { conversation: Shown }) {
  const { thread, turns, runs, more } = conversation;
  const progress = useStore(daemon, (now) => now.progress);
  const scroll = useScroll(conversation, progress);
  const { going, queued } = arranged(conversation);
  const lastAnswer = turns.findLast((turn) => turn.role === "assistant") ?? null;
  return (
    <>
      <ThreadHead thread={thread} />
      <div class="scroll" ref={scroll.box} onScroll={scroll.moved} tabIndex={-1} data-thread={thread.id}>
        <div class="column" ref={scroll.inside}>
          {more ? <Earlier box={scroll.box} /> : <Beginning conversation={conversation} />}
          <Guard of={conversation}>
            <Turns conversation={conversation} />
          </Guard>
        </div>
      </div>
      {scroll.away && (
        <button class="to-end" type="button" onClick={scroll.toEnd} aria-label="To the end">
          <Send />
        </button>
      )}
      <Guard of={turns}>
        <Timeline turns={turns} box={scroll.box} />
      </Guard>
      <Guard of={queued}>
        <Queue runs={queued} going={going !== null} />
      </Guard>
      <Composer thread={thread} runs={runs} lastAnswer={lastAnswer} atBottom={scroll.toEnd} />
    </>
  );
}

const Asked = memo((props: ComponentProps<typeof UserTurn>) => (
  <Guard of={props} raw={props.turn.text}>
    <UserTurn {...props} />
  </Guard>
));

const Answered = memo((props: ComponentProps<typeof AnswerTurn>) => (
  <Guard of={props} raw={props.turn?.text}>
    <AnswerTurn {...props} />
  </Guard>
));

/** What was said, and what is being said. `fixed`: to be read, not to be changed or gone on from. */
export function Turns({ conversation, fixed = false }: { conversation: Shown; fixed?: boolean }) {
  const { thread, turns, runs } = conversation;
  const progress = useStore(daemon, (now) => now.progress);
  const { going, pending, unanswered } = arranged(conversation);
  const shown = going ?? pending ?? unanswered;
  const questions = open(conversation, progress, going);
  const busy = runs.some((run) => isActive(run.status) && !run.held);
  return (
    <>
      <div class="turns" role="log" aria-live="polite" aria-relevant="additions" aria-label="Conversation">
        {turns.map((turn, index) =>
          turn.role === "user" ? (
            <Asked
              key={turn.id}
              thread={thread.id}
              turn={turn}
              ended={endedOf(turn, shown)}
              after={turns.length - 1 - index}
              busy={busy}
              fixed={fixed}
            />
          ) : (
            <Answered
              key={`answer-${turn.run_id ?? turn.id}`}
              thread={thread.id}
              turn={turn}
              run={runs.find((run) => run.id === turn.run_id) ?? null}
              prompt={promptBefore(turns, index)}
              progress={(turn.run_id && progress[turn.run_id]) || null}
              last={index === turns.length - 1 && !busy}
              fixed={fixed}
            />
          ),
        )}
        {pending && !pending.prompt_turn_id && <PendingPrompt run={pending} />}
        {shown && (
          <Answered
            key={`answer-${shown.id}`}
            thread={thread.id}
            turn={null}
            run={shown}
            prompt={turns.find((turn) => turn.id === shown.prompt_turn_id) ?? null}
            progress={progress[shown.id] ?? null}
            last
            fixed={fixed}
          />
        )}
      </div>
      {questions.map((question) => (
        <Guard key={question.id} raw={question.input}>
          <QuestionCard question={question} />
        </Guard>
      ))}
    </>
  );
}

function promptBefore(turns: readonly Turn[], index: number): Turn | null {
  for (let at = index - 1; at >= 0; at--) if (turns[at]?.role === "user") return turns[at] ?? null;
  return null;
}

/** The run that gave no answer to this prompt; not when it stands at the end anyway, or when the prompt is asked again. */
function endedOf(turn: Turn, shown: Run | null): RunNote | null {
  const told = shown && (shown.id === turn.run?.id || shown.prompt_turn_id === turn.id);
  return told ? null : turn.run;
}

/** The open questions: the view's, and one just asked that the next view will have. */
function open(conversation: Shown, progress: State["progress"], going: Run | null): readonly Question[] {
  const parts = (going && progress[going.id]?.parts) || [];
  const settled = new Set(parts.flatMap((part) => (part.kind === "asked" && part.answer ? [part.id] : [])));
  return conversation.questions.filter((question) => question.state === "open" && !settled.has(question.id));
}

const PendingPrompt = ({ run }: { run: Run }) => (
  <article class="turn user pending" data-testid="turn-user" aria-label="You">
    <div class="said">
      <div class="markdown plain">{visible(run.prompt)}</div>
    </div>
  </article>
);

function Beginning({ conversation }: { conversation: Shown }) {
  const { thread, turns, runs } = conversation;
  const agents = useStore(page, (now) => now.agents);
  const agent = agents?.find((each) => each.name === thread.agent);
  if (turns.length > 0 || runs.length > 0) return null;
  return (
    <div class="empty inside">
      <h2>Nothing said yet</h2>
      <p>
        Write below. {thread.agent} works in <code>{thread.cwd}</code> and keeps its session, so the next turn sends only what
        is new.
      </p>
      {agent?.problem && (
        <p class="note warning">
          {agent.problem} {agent.hint}
        </p>
      )}
    </div>
  );
}

/** Comes into sight at the top and fetches the page before; the turn that was first stays where it is. */
function Earlier({ box }: { box: { current: HTMLDivElement | null } }) {
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
    const observer = new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && void load(), {
      root: box.current,
      rootMargin: "600px 0px 0px",
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [busy]);
  return (
    <button class="quiet earlier" type="button" ref={ref} data-testid="earlier" onClick={() => void load()}>
      {busy ? "Loading earlier turns…" : "Earlier turns"}
    </button>
  );
}

const NEAR_END_PX = 60;
const ROUNDING_PX = 2;

const BY_READER = ["wheel", "touchmove", "pointerdown", "keydown"] as const;

/** Stays at the end while the reader is there; stays where it is when the reader has scrolled up.
 *
 * How high a turn is, is known only when it is drawn: while a thread opens, its end moves to and fro, and the browser pulls
 * the view up whenever there is less to show. So nothing but the reader lets go of the end: before anything was touched
 * the view cannot leave it, and later only by going up further than there is less to show. */
export function useScroll(conversation: Shown | null, progress: State["progress"], atEnd = true) {
  const box = useRef<HTMLDivElement>(null);
  const inside = useRef<HTMLDivElement>(null);
  const stuck = useRef(atEnd);
  const touched = useRef(false);
  const last = useRef({ top: 0, height: 0, shown: 0 }); // when it was last looked at
  const [away, setAway] = useState(false);
  const moved = (): void => {
    const view = box.current;
    if (!view) return;
    const { scrollTop: top, scrollHeight: height, clientHeight: shown } = view;
    const left = height - top - shown;
    const pulledTo = Math.min(last.current.height, height) - Math.max(last.current.shown, shown);
    const up = touched.current && top < Math.min(last.current.top, pulledTo) - ROUNDING_PX;
    if (up) stuck.current = left <= ROUNDING_PX;
    else if (top > last.current.top && left < NEAR_END_PX) stuck.current = true;
    last.current = { top, height, shown };
    // The browser keeps what is read in its place when something above it changes; at the end it is the end that stays.
    view.style.overflowAnchor = stuck.current ? "none" : "";
    setAway(!stuck.current && left >= NEAR_END_PX);
  };
  const toEnd = (): void => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
    stuck.current = true;
    moved();
  };
  const follow = (): void => {
    moved(); // the reader may have gone up since
    if (stuck.current) toEnd();
  };
  useLayoutEffect(follow, [conversation, progress]);
  useEffect(() => {
    const observer = new ResizeObserver(follow);
    if (inside.current) observer.observe(inside.current);
    if (box.current) observer.observe(box.current);
    const touch = (): void => void (touched.current = true);
    for (const kind of BY_READER) document.addEventListener(kind, touch, { passive: true, capture: true });
    return () => {
      observer.disconnect();
      for (const kind of BY_READER) document.removeEventListener(kind, touch, { capture: true });
    };
  }, []);
  return useMemo(() => ({ box, inside, moved, toEnd, away }), [away]);
}
