// The composer, where the next prompt is written. The browser stores the text with every key, so that neither a reload nor
// a restart of the daemon loses it. Images are pasted, dropped or chosen; they are not kept over a reload.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { AgentPicker, ModelPicker } from "../agents/Pickers.tsx";
import { isRunning, type Agent, type Run, type Thread, type Turn } from "../daemon/wire.ts";
import { ask, changeThread, currentRun, onRefill, stop } from "../state/actions.ts";
import { startAhead } from "../state/ahead.ts";
import { page } from "../state/page.ts";
import { draft } from "../state/storage.ts";
import { useStore } from "../state/store.ts";
import { count, shownTokens } from "../text/format.ts";
import { cannotAsk, permissionOptions } from "../text/labels.ts";
import { useAutosize } from "../ui/autosize.ts";
import { Picture, Send, Stop } from "../ui/icons.tsx";
import { isNarrow } from "../ui/viewport.ts";
import { attach, AttachedImages, IMAGE_TYPES, imageFiles, type Attached } from "./Images.tsx";

/** An agent or model for the next turn only, because a run is active and the thread cannot be changed. */
type Override = { agent?: string; model?: string };

/** The prompt without blanks around it. A blank before a slash counts: it says that the prompt is no command. */
const trimmed = (text: string): string => (/^\s+\//.test(text) ? ` ${text.trim()}` : text.trim());

interface Props {
  thread: Thread;
  runs: readonly Run[];
  lastAnswer: Turn | null;
  onSent: () => void;
}

export function Composer({ thread, runs, lastAnswer, onSent }: Props) {
  const [text, setText] = useState(() => draft.get(thread.id));
  const [fresh, setFresh] = useState(false);
  const [sending, setSending] = useState(false);
  const [images, setImages] = useState<Attached[]>([]);
  const chooser = useRef<HTMLInputElement>(null);
  const [override, setOverride] = useState<Override>({});
  const area = useRef<HTMLTextAreaElement>(null);
  const agents = useStore(page, (now) => now.agents);
  const connected = useStore(page, (now) => now.connection === "open");
  const session = useStore(page, (now) => (now.session?.thread === thread.id ? now.session : null));
  const current = runs.find((run) => isRunning(run.status)) ?? null;
  const agent = override.agent ?? thread.agent;
  const chosen = agents?.find((each) => each.name === agent) ?? null;

  const write = (next: string): void => {
    setText(next);
    draft.set(thread.id, next);
    if (!next) draft.setKnown(thread.id, "");
  };
  useEffect(
    () =>
      onRefill((id, refill) => {
        if (id !== thread.id) return;
        setText(refill);
        area.current?.focus();
      }),
    [thread.id],
  );
  useAutosize(area, text);
  useLayoutEffect(() => {
    if (!page.now.browsing && !isNarrow()) area.current?.focus();
  }, []);

  const send = async (): Promise<void> => {
    const prompt = trimmed(text);
    if (!prompt || sending) return;
    setSending(true);
    const typed = { typed: true, known: draft.getKnown(thread.id) };
    const asked = await ask(thread.id, prompt, { ...typed, fresh, ...override, images: images.map(sent) });
    setSending(false);
    if (!asked) return;
    setImages([]);
    if (trimmed(area.current?.value ?? "") === prompt) write("");
    setFresh(false);
    setOverride({});
    onSent();
  };
  const explain = (): void => {
    const typed = { expand: true, known: draft.getKnown(thread.id) };
    const shown = trimmed(text) && images.length ? { images: images.map(sent) } : {};
    const how = { ...typed, ...(fresh ? { force_fresh_session: true } : {}), ...override, ...shown };
    page.patch({ dialog: { is: "explain", thread: thread.id, ask: { prompt: trimmed(text), ...how } } });
  };
  const choose = async (part: Override): Promise<void> => {
    // Another agent has other models, so the model is reset to that agent's default.
    const next = part.agent ? { agent: part.agent, model: null } : part;
    if (currentRun()) setOverride({ ...override, ...part, ...(part.agent ? { model: undefined } : {}) });
    else await changeThread(thread.id, next);
  };
  const add = async (files: Iterable<File>): Promise<void> => setImages(await attach(files, images));
  const take = (event: Event, files: readonly File[]): void => {
    if (files.length === 0) return; // it is a text
    event.preventDefault();
    void add(files);
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
      <SessionLine thread={thread} fresh={fresh} busy={current !== null} override={override} explain={explain} />
      {cannotAsk(chosen) && thread.permissions === "ask" && <CannotAsk thread={thread} agent={agent} />}
      <div class={fresh ? "box fresh" : "box"} onDrop={(event) => take(event, [...(event.dataTransfer?.files ?? [])])}>
        {images.length > 0 && <AttachedImages images={images} change={setImages} />}
        <textarea
          ref={area}
          rows={1}
          data-testid="composer"
          aria-label="Your message"
          placeholder={current ? "Queue the next message…" : `Message ${agent}…`}
          value={text}
          onInput={(event) => {
            write(event.currentTarget.value);
            if (!fresh && Object.keys(override).length === 0) startAhead(session);
          }}
          onKeyDown={onKeyDown}
          onPaste={(event) => take(event, imageFiles(event.clipboardData))}
        />
        <div class="tools-row">
          <AgentPicker agents={agents} agent={agent} choose={(name) => void choose({ agent: name })} />
          <ModelPicker
            key={agent}
            agent={chosen}
            model={override.agent ? (override.model ?? "") : (override.model ?? thread.model ?? "")}
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
          <input
            ref={chooser}
            type="file"
            hidden
            multiple
            accept={IMAGE_TYPES}
            data-testid="image-chooser"
            onChange={(event) => {
              const chosen = [...(event.currentTarget.files ?? [])];
              event.currentTarget.value = "";
              void add(chosen);
            }}
          />
          <button
            type="button"
            class="toggle"
            data-testid="attach"
            aria-label="Attach images"
            title="Attach images; they can be pasted and dropped too"
            onClick={() => chooser.current?.click()}
          >
            <Picture size={14} />
          </button>
          <span class="grow" />
          <PermissionPill thread={thread} agent={chosen} />
          <ContextPill turn={lastAnswer} />
          {current && (
            <button
              type="button"
              class="round stop"
              data-testid="stop"
              aria-label="Stop"
              title="Stop (Esc). The answer so far is kept."
              disabled={current.cancel_requested}
              onClick={() => void stop(current)}
            >
              <Stop />
            </button>
          )}
          <button
            type="submit"
            class="round send"
            data-testid="send"
            aria-label={current ? "Queue" : "Send"}
            title={current ? "Queue (Enter)" : "Send (Enter)"}
            disabled={!text.trim() || sending || !connected}
          >
            <Send />
          </button>
        </div>
      </div>
    </form>
  );
}

/** An image as a request has it: base64 without the beginning of the data: URL. */
const sent = ({ name, url }: Attached): { name: string; data: string } => ({ name, data: url.slice(url.indexOf(",") + 1) });

interface SessionLineProps {
  thread: Thread;
  fresh: boolean;
  busy: boolean;
  override: Override;
  explain: () => void;
}

/** Says whether the next turn resumes the session, or why not. */
function SessionLine({ thread, fresh, busy, override, explain }: SessionLineProps) {
  const session = useStore(page, (now) => (now.session?.thread === thread.id ? now.session : null));
  const text = fresh
    ? "The next turn starts a fresh session with the whole transcript, because you asked for it."
    : "agent" in override || "model" in override
      ? "Only the next turn goes to another agent or model."
      : busy
        ? ""
        : (session?.words ?? "");
  return (
    <div class="session-row">
      <p class="session-line" data-testid="session-line" role="status">
        {text}
      </p>
      <button class="link" type="button" data-testid="explain" title="The exact prompt, and what it would cost (w)" onClick={explain}>
        Details
      </button>
    </div>
  );
}

/** A warning before the prompt is sent: the thread is set to ask, and this agent cannot. */
const CannotAsk = ({ thread, agent }: { thread: Thread; agent: string }) => (
  <p class="session-line caution" data-testid="cannot-ask">
    {agent} cannot ask for permission: it can read, but not change anything.{" "}
    <button class="link" type="button" onClick={() => page.patch({ dialog: { is: "settings", thread: thread.id } })}>
      Change permissions
    </button>
  </p>
);

function PermissionPill({ thread, agent }: { thread: Thread; agent: Agent | null }) {
  const permission = permissionOptions(agent).find((each) => each.value === thread.permissions);
  return (
    <button
      type="button"
      class={thread.permissions === "all" ? "pill warn" : "pill"}
      title={`Permissions: ${permission?.description ?? ""}`}
      aria-label={`Permissions: ${permission?.short ?? thread.permissions}`}
      data-testid="permission-pill"
      onClick={() => page.patch({ dialog: { is: "settings", thread: thread.id } })}
    >
      {permission?.short ?? thread.permissions}
    </button>
  );
}

function ContextPill({ turn }: { turn: Turn | null }) {
  const read = turn?.run ? shownTokens(turn.run.usage) : 0;
  if (read === 0) return null;
  return (
    <span
      class="pill context"
      data-testid="context-pill"
      title={`${read.toLocaleString("en")} tokens were shown to the model in the last turn`}
    >
      {count(read)} context
    </span>
  );
}
