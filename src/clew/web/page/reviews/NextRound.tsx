// The form for the next round of a review: a reply to the reviewer, and who reviews.

import { useRef, useState } from "preact/hooks";
import { AgentPicker, ModelPicker } from "../agents/Pickers.tsx";
import type { Review } from "../daemon/wire.ts";
import { startNextRound, stopRound } from "../state/actions.ts";
import { page } from "../state/page.ts";
import { draft } from "../state/storage.ts";
import { useStore } from "../state/store.ts";
import { useAutosize } from "../ui/autosize.ts";
import { Send, Stop } from "../ui/icons.tsx";

/** Another agent or model than that of the review. */
type Override = { agent?: string; model?: string };

export function NextRound({ review }: { review: Review }) {
  const agents = useStore(page, (now) => now.agents);
  const connected = useStore(page, (now) => now.connection === "open");
  const [text, setText] = useState(() => draft.get(review.thread_id));
  const [override, setOverride] = useState<Override>({});
  const [fresh, setFresh] = useState(false);
  const [busy, setBusy] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  useAutosize(area, text);
  const last = review.rounds.at(-1) ?? null;
  const running = last?.status === "running" ? last : null;
  const agent = override.agent ?? review.agent;
  const write = (next: string): void => {
    setText(next);
    draft.set(review.thread_id, next);
  };
  const send = async (): Promise<void> => {
    if (busy || running) return;
    setBusy(true);
    const message = text.trim();
    const started = await startNextRound(review.id, {
      ...override,
      ...(message ? { message, expand: true } : {}),
      ...(fresh ? { resume: false } : {}),
    });
    setBusy(false);
    if (!started) return;
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
        {statusLine(running?.round ?? null, last?.round ?? 0, fresh, override)}
      </p>
      <div class={fresh ? "box fresh" : "box"}>
        <textarea
          ref={area}
          rows={1}
          data-testid="next-message"
          aria-label="Your reply to the reviewer"
          placeholder="Reply to the findings, or fix them and start the next round"
          value={text}
          onInput={(event) => write(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        <div class="tools-row">
          <AgentPicker agents={agents} agent={agent} choose={(name) => setOverride({ agent: name })} />
          <ModelPicker
            key={agent}
            agent={agents?.find((each) => each.name === agent) ?? null}
            model={override.model ?? (override.agent ? "" : (review.model ?? ""))}
            choose={(model) => setOverride({ ...override, model })}
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

/** What the next round would do. */
function statusLine(running: number | null, last: number, fresh: boolean, override: Override): string {
  if (running !== null) return `Round ${running} is running. You can start the next one when it has ended.`;
  if (last === 0) return "";
  if (fresh) return "The next round starts a fresh session with all earlier rounds, because you asked for it.";
  if (override.agent ?? override.model) {
    return "Another agent or model has its own session. The first time, it is shown all earlier rounds.";
  }
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
