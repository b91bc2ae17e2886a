// One review: its rounds side by side, its findings, the diff of a round with the findings on it, and the next round.

import { useMemo, useRef, useState } from "preact/hooks";
import { exportReview, followReview, stopRound } from "./actions.ts";
import { FindingList, type Filter, type Target } from "./Findings.tsx";
import { byGravity, onRound } from "./findings.ts";
import { Back, Download, Send, Stop } from "./icons.tsx";
import { draft } from "./keep.ts";
import { PatchView } from "./PatchView.tsx";
import { AgentPicker, ModelPicker, useGrowing } from "./Pickers.tsx";
import { refreshReview, reviews } from "./reviews.ts";
import { about, ReviewChip, Trouble } from "./Reviews.tsx";
import { Rounds } from "./Rounds.tsx";
import { Fold, Output } from "./Steps.tsx";
import { useStore } from "./store.ts";
import { daemon, go, page } from "./sync.ts";
import { ToList } from "./ThreadHead.tsx";
import { visible, visibleLine } from "./visible.ts";
import type { Finding, Review } from "./wire.ts";
import { dollars, shortPath } from "./words.ts";

export function ReviewView() {
  const { open, missing, trouble } = useStore(reviews, (now) => now);
  if (missing) {
    return (
      <div class="empty">
        <h1>This review is not here</h1>
        <p>
          Its thread was deleted, or the address is of another Clew. <a href="#/reviews">All reviews</a>
        </p>
      </div>
    );
  }
  if (!open && trouble) {
    return (
      <div class="empty">
        <h1>The review cannot be shown</h1>
        <Trouble problem={trouble} again={refreshReview} />
      </div>
    );
  }
  if (!open) return <div class="empty" aria-busy="true" />;
  return <Opened key={open.id} review={open} />;
}

let asks = 0;

function Opened({ review }: { review: Review }) {
  const asked = useStore(page, ({ route }) => (route.at === "review" ? route.round : null));
  const [filter, setFilter] = useState<Filter>("all");
  const [target, setTarget] = useState<Target | null>(null);
  const findings = useMemo(() => byGravity(review.findings), [review.findings]);
  const round = review.rounds.find((each) => each.round === asked) ?? review.rounds.at(-1) ?? null;
  const jump = (finding: Finding): void => {
    setTarget({ id: finding.id, n: ++asks });
    // One that was settled before this round is on the diff of the round that found it.
    const here = round !== null && onRound(review, round.round).some((each) => each.id === finding.id);
    if (!here) go({ at: "review", review: review.id, round: finding.round });
  };
  return (
    <div class="view" data-testid="review-view">
      <Head review={review} />
      <div class="scroll" tabIndex={0} role="region" aria-label="Review">
        <div class="column broad">
          {round ? (
            <>
              <Rounds review={review} chosen={round.round} />
              <FindingList findings={findings} filter={filter} choose={setFilter} jump={jump} />
              <PatchView key={round.round} review={review} round={round} filter={filter} target={target} />
            </>
          ) : (
            <div class="empty inside">
              <h2>No rounds yet</h2>
              <p>Ask for one below.</p>
            </div>
          )}
          <Behind review={review} />
        </div>
      </div>
      <NextRound review={review} />
    </div>
  );
}

function Head({ review }: { review: Review }) {
  const home = useStore(page, (now) => now.settings?.home);
  return (
    <header class="head">
      <ToList />
      <button class="quiet" type="button" aria-label="All reviews" title="All reviews" onClick={() => go({ at: "reviews" })}>
        <Back />
      </button>
      <div class="head-names">
        <h1>Review {review.id}</h1>
        <p>
          <ReviewChip review={review} />
          <span class="path" title={visible(review.cwd)}>
            {visible(shortPath(review.cwd, home))}
          </span>
          <span class="wide" title={visible(about(review))}>
            {visibleLine(about(review))}
          </span>
          {review.cost_usd > 0 && <span class="wide">{dollars(review.cost_usd)}</span>}
        </p>
      </div>
      <div class="head-actions">
        <button class="quiet" type="button" data-testid="export" title="As a Markdown file" onClick={() => void exportReview(review.id)}>
          <Download /> <span class="wide">Export</span>
        </button>
      </div>
    </header>
  );
}

/** What the reviewer was shown and answered, as it is: for when an answer is hard to believe, or did not fit. */
function Behind({ review }: { review: Review }) {
  const turns = useStore(daemon, (now) => (now.open === review.thread_id ? now.conversation?.turns : null));
  if (!turns?.length) return null;
  return (
    <Fold class="behind" testid="word-by-word" summary="What was said, word by word">
      {() =>
        turns.map((turn, index) => (
          <Output key={turn.id} label={`${turn.role === "user" ? "Asked" : "Answered"}, ${index + 1}`} text={turn.text} />
        ))
      }
    </Fold>
  );
}

function NextRound({ review }: { review: Review }) {
  const agents = useStore(page, (now) => now.agents);
  const connected = useStore(page, (now) => now.connection === "open");
  const [text, setText] = useState(() => draft.of(review.thread_id));
  const [own, setOwn] = useState<{ agent?: string; model?: string }>({});
  const [fresh, setFresh] = useState(false);
  const [busy, setBusy] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  useGrowing(area, text);
  const last = review.rounds.at(-1) ?? null;
  const running = last?.status === "running" ? last : null;
  const agent = own.agent ?? review.agent;
  const write = (words: string): void => {
    setText(words);
    draft.keep(review.thread_id, words);
  };
  const send = async (): Promise<void> => {
    if (busy || running) return;
    setBusy(true);
    const message = text.trim();
    const begun = await followReview(review.id, { ...own, ...(message ? { message } : {}), ...(fresh ? { resume: false } : {}) });
    setBusy(false);
    if (!begun) return;
    write("");
    setFresh(false);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void send();
  };
  return (
    <form class="composer broad" aria-label="The next round" onSubmit={(event) => (event.preventDefault(), void send())}>
      <p class="session-line" role="status">
        {told(running?.round ?? null, last?.round ?? 0, fresh, own)}
      </p>
      <div class={fresh ? "box fresh" : "box"}>
        <textarea
          ref={area}
          rows={1}
          data-testid="next-message"
          aria-label="Your reply to the reviewer"
          placeholder="Reply to the findings, or mend them and ask again"
          value={text}
          onInput={(event) => write(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        <div class="tools-row">
          <AgentPicker agents={agents} agent={agent} choose={(name) => setOwn({ agent: name })} />
          <ModelPicker
            key={agent}
            agent={agents?.find((each) => each.name === agent) ?? null}
            model={own.model ?? (own.agent ? "" : (review.model ?? ""))}
            choose={(model) => setOwn({ ...own, model })}
          />
          <button
            type="button"
            class={fresh ? "toggle on" : "toggle"}
            aria-pressed={fresh}
            data-testid="fresh-toggle"
            title="The next round starts a new session with all earlier rounds"
            onClick={() => setFresh(!fresh)}
          >
            Fresh<span class="wide"> session</span>
          </button>
          <span class="grow" />
          {running?.run_id ? (
            <StopButton key={running.run_id} run={running.run_id} />
          ) : (
            <button type="submit" class="primary" data-testid="next-round" disabled={busy || running !== null || !connected}>
              <Send size={14} /> Next round
            </button>
          )}
        </div>
      </div>
    </form>
  );
}

function told(running: number | null, last: number, fresh: boolean, own: { agent?: string; model?: string }): string {
  if (running !== null) return `Round ${running} is going on. The next one can be asked for when it is over.`;
  if (last === 0) return "";
  if (fresh) return "The next round starts a fresh session with all earlier rounds, because you ask for it.";
  if (own.agent ?? own.model) return "Another agent or model has a session of its own: the first time it is shown all earlier rounds.";
  return `The next round sees what changed since round ${last}, and your reply.`;
}

function StopButton({ run }: { run: string }) {
  const [stopping, setStopping] = useState(false);
  const stop = async (): Promise<void> => {
    setStopping(true);
    if (!(await stopRound(run))) setStopping(false);
  };
  return (
    <button type="button" class="danger" data-testid="round-stop" disabled={stopping} onClick={() => void stop()}>
      <Stop size={13} /> {stopping ? "Stopping…" : "Stop"}
    </button>
  );
}
