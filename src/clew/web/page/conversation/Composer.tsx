// Where the next turn is written. What is typed is kept in the browser with every key, so neither a reload nor a restart
// of the daemon takes it away.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ask, changeThread, goingRun, onRefill, stop } from "./actions.ts";
import { page } from "./sync.ts";
import { Send, Stop } from "./icons.tsx";
import { draft } from "./keep.ts";
import { AgentPicker, ModelPicker, useGrowing } from "./Pickers.tsx";
import { useStore } from "./store.ts";
import { isGoing, type Agent, type Run, type Thread, type Turn } from "./wire.ts";
import { cannotAsk, count, permissionWords, shown } from "./words.ts";

interface Composing {
  thread: Thread;
  runs: readonly Run[];
  lastAnswer: Turn | null;
  atBottom: () => void;
}

export function Composer({ thread, runs, lastAnswer, atBottom }: Composing) {
  const [text, setText] = useState(() => draft.of(thread.id));
  const [fresh, setFresh] = useState(false);
  const [sending, setSending] = useState(false);
  const [own, setOwn] = useState<{ agent?: string; model?: string }>({}); // for the next turn only: a run is going on
  const area = useRef<HTMLTextAreaElement>(null);
  const agents = useStore(page, (now) => now.agents);
  const connected = useStore(page, (now) => now.connection === "open");
  const going = runs.find((run) => isGoing(run.status)) ?? null;
  const agent = own.agent ?? thread.agent;
  const chosen = agents?.find((each) => each.name === agent) ?? null;

  const write = (words: string): void => {
    setText(words);
    draft.keep(thread.id, words);
  };
  useEffect(
    () =>
      onRefill((id, words) => {
        if (id !== thread.id) return;
        setText(words);
        area.current?.focus();
      }),
    [thread.id],
  );
  useGrowing(area, text);
  useLayoutEffect(() => {
    if (!page.now.browsing && window.matchMedia("(min-width: 760px)").matches) area.current?.focus();
  }, []);

  const send = async (): Promise<void> => {
    const prompt = text.trim();
    if (!prompt || sending) return;
    setSending(true);
    const asked = await ask(thread.id, prompt, { fresh, ...own });
    setSending(false);
    if (!asked) return;
    if (area.current?.value.trim() === prompt) write("");
    setFresh(false);
    setOwn({});
    atBottom();
  };
  const choose = async (part: { agent?: string; model?: string }): Promise<void> => {
    // Another agent has models of its own: the thread's goes back to that agent's default.
    const next = part.agent ? { agent: part.agent, model: null } : part;
    if (goingRun()) setOwn({ ...own, ...part, ...(part.agent ? { model: undefined } : {}) });
    else await changeThread(thread.id, next);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || event.isComposing) return;
    if (!event.shiftKey) {
      event.preventDefault();
      void send();
    }
  };

  return (
    <form class="composer" aria-label="Write to the agent" onSubmit={(event) => (event.preventDefault(), void send())}>
      <SessionLine thread={thread} fresh={fresh} going={going !== null} own={own} />
      {cannotAsk(chosen) && thread.permissions === "ask" && <CannotAsk thread={thread} agent={agent} />}
      <div class={fresh ? "box fresh" : "box"}>
        <textarea
          ref={area}
          rows={1}
          data-testid="composer"
          aria-label="Your message"
          placeholder={going ? "Queue the next message…" : `Message ${agent}…`}
          value={text}
          onInput={(event) => write(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        <div class="tools-row">
          <AgentPicker agents={agents} agent={agent} choose={(name) => void choose({ agent: name })} />
          <ModelPicker
            key={agent}
            agent={chosen}
            model={own.agent ? (own.model ?? "") : (own.model ?? thread.model ?? "")}
            choose={(model) => void choose({ model })}
          />
          <button
            type="button"
            class={fresh ? "toggle on" : "toggle"}
            aria-pressed={fresh}
            data-testid="fresh-toggle"
            title="The next turn starts a new session with the whole transcript"
            onClick={() => setFresh(!fresh)}
          >
            Fresh<span class="wide"> session</span>
          </button>
          <span class="grow" />
          <PermissionPill thread={thread} agent={chosen} />
          <ContextPill turn={lastAnswer} />
          {going && (
            <button
              type="button"
              class="round stop"
              data-testid="stop"
              aria-label="Stop"
              title="Stop (Esc): what was said is kept"
              disabled={going.cancel_requested}
              onClick={() => void stop(going)}
            >
              <Stop />
            </button>
          )}
          <button
            type="submit"
            class="round send"
            data-testid="send"
            aria-label={going ? "Queue" : "Send"}
            title={going ? "Queue (Enter)" : "Send (Enter)"}
            disabled={!text.trim() || sending || !connected}
          >
            <Send />
          </button>
        </div>
      </div>
    </form>
  );
}

/** Does the next turn resume, and why not. */
function SessionLine({ thread, fresh, going, own }: { thread: Thread; fresh: boolean; going: boolean; own: object }) {
  const session = useStore(page, (now) => (now.session?.thread === thread.id ? now.session : null));
  const words = fresh
    ? "The next turn starts a fresh session with the whole transcript, because you ask for it."
    : "agent" in own || "model" in own
      ? "The next turn goes to another agent or model, for this once."
      : going
        ? ""
        : (session?.words ?? "");
  return (
    <p class="session-line" data-testid="session-line" role="status">
      {words}
    </p>
  );
}

/** Said before the prompt is sent: a thread that asks promises what this agent cannot keep. */
const CannotAsk = ({ thread, agent }: { thread: Thread; agent: string }) => (
  <p class="session-line caution" data-testid="cannot-ask">
    {agent} cannot ask you: it can read, and change nothing.{" "}
    <button class="link" type="button" onClick={() => page.patch({ dialog: { is: "settings", thread: thread.id } })}>
      Change permissions
    </button>
  </p>
);

function PermissionPill({ thread, agent }: { thread: Thread; agent: Agent | null }) {
  const permission = permissionWords(agent).find((each) => each.value === thread.permissions);
  return (
    <button
      type="button"
      class={thread.permissions === "all" ? "pill warn" : "pill"}
      title={`Permissions: ${permission?.means ?? ""}`}
      aria-label={`Permissions: ${permission?.short ?? thread.permissions}`}
      data-testid="permission-pill"
      onClick={() => page.patch({ dialog: { is: "settings", thread: thread.id } })}
    >
      {permission?.short ?? thread.permissions}
    </button>
  );
}

function ContextPill({ turn }: { turn: Turn | null }) {
  const read = turn?.run ? shown(turn.run.usage) : 0;
  if (read === 0) return null;
  return (
    <span class="pill context" data-testid="context-pill" title={`${read.toLocaleString("en")} tokens were shown to the model in the last turn`}>
      {count(read)} context
    </span>
  );
}
