// The hooks view: the sessions of agents that forges start, and the events that the forges sent.

import { useEffect } from "preact/hooks";
import type { HookEvent, HookSession, HookSettings } from "../daemon/wire.ts";
import { hooks, refreshHooks, refreshHookSettings } from "../state/hooks.ts";
import { page } from "../state/page.ts";
import { hashOf } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { age, dateTime, plural } from "../text/format.ts";
import { visible, visibleLine } from "../text/visible.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { useMinute } from "../ui/clock.ts";
import { Again } from "../ui/icons.tsx";
import { LoadError } from "../ui/LoadError.tsx";

const REFRESH_MS = 5_000; // no live message reports an event that starts no agent, because it changes no thread

export function HooksView() {
  const { settings, sessions, events, listed, error } = useStore(hooks, (now) => now);
  const now = useMinute();
  useEffect(() => {
    const refresh = (): void => {
      if (document.visibilityState === "visible") void refreshHooks().catch(() => undefined);
    };
    refresh();
    void refreshHookSettings().catch(() => undefined);
    const timer = setInterval(refresh, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <div class="view" data-testid="hooks-view">
      <header class="head">
        <BackToList />
        <div class="head-names">
          <h1>Hooks</h1>
          <p data-testid="hook-counts">
            {listed && plural(sessions.length, "session")}
            {sessions.length > 0 && `: ${countsByState(sessions)}`}
          </p>
        </div>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Hooks" aria-busy={!listed && !error}>
        <div class="column wide">
          {error && <LoadError problem={error} retry={refreshHooks} />}
          {settings && <SetupHint settings={settings} waiting={events.some((event) => event.state === "received")} />}
          <h2>Sessions</h2>
          {listed && sessions.length === 0 && <p class="hint">No sessions. The next event of any issue starts a fresh one.</p>}
          {sessions.length > 0 && <SessionTable sessions={sessions} />}
          <ul class="jobs" data-testid="hook-sessions">
            {sessions.map((session) => (
              <Session key={session.key} session={session} now={now} />
            ))}
          </ul>
          <h2>Events</h2>
          {listed && events.length === 0 && <p class="hint">No events received yet.</p>}
          <ul class="jobs" data-testid="hook-events">
            {events.map((event) => (
              <Event key={event.id} event={event} now={now} />
            ))}
          </ul>
        </div>
      </div>
    </div>
  );
}

const STATES: readonly HookSession["state"][] = ["running", "resumable", "fresh"];

const countIn = (sessions: readonly HookSession[], state: HookSession["state"]): number =>
  sessions.filter((each) => each.state === state).length;

const countsByState = (sessions: readonly HookSession[]): string =>
  STATES.map((state) => ({ state, count: countIn(sessions, state) }))
    .filter(({ count }) => count > 0)
    .map(({ state, count }) => `${count} ${state}`)
    .join(", ");

/** The number of sessions by repository, agent and state. */
function SessionTable({ sessions }: { sessions: readonly HookSession[] }) {
  const groups = new Map<string, HookSession[]>();
  for (const session of sessions) {
    const key = `${session.repo} ${session.agent}`; // neither contains a space
    groups.set(key, [...(groups.get(key) ?? []), session]);
  }
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Sessions by repository and agent">
      <table class="session-table" data-testid="hook-table">
        <thead>
          <tr>
            <th scope="col">Repository</th>
            <th scope="col">Agent</th>
            {STATES.map((state) => (
              <th key={state} scope="col">
                {state}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {[...groups].map(([key, group]) => (
            <tr key={key}>
              <th scope="row">{visible(group[0]?.repo ?? "")}</th>
              <td>{visible(group[0]?.agent ?? "")}</td>
              {STATES.map((state) => (
                <td key={state}>{countIn(group, state) || "–"}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What is missing before events can be received and worked on. */
function SetupHint({ settings, waiting }: { settings: HookSettings; waiting: boolean }) {
  if (settings.rules.length > 0 && !settings.forges.some((forge) => forge.has_secret)) {
    return (
      <p class="note warning" data-testid="hook-hint">
        No events are accepted, because no forge has a secret. Start clew serve with one in the environment, such as{" "}
        <code>CLEW_GITHUB_SECRET</code>.
      </p>
    );
  }
  return waiting && settings.work === 0 ? (
    <p class="note warning" data-testid="hook-hint">
      This daemon does not run jobs itself. If nothing happens, start a worker: <code>clew work</code>
    </p>
  ) : null;
}

const STATE_TONES: Record<HookSession["state"], string> = { running: "plain", resumable: "good", fresh: "warning" };

function Session({ session, now }: { session: HookSession; now: number }) {
  const confirmReset = (): void => page.patch({ dialog: { is: "reset", session } });
  return (
    <li class="job hook" data-testid="hook-session" data-state={session.state}>
      <span class={`chip ${STATE_TONES[session.state]}`}>
        {session.state === "running" && <span class="pulse" aria-hidden="true" />} {session.state}
      </span>
      <span class="job-prompt">
        <a href={hashOf({ at: "thread", thread: session.thread_id })}>{visible(session.key)}</a>{" "}
        {session.last_event && <span class="muted">{visibleLine(describe(session.last_event))}</span>}
      </span>
      <span class="job-note">
        <time title={dateTime(session.used_at)} dateTime={session.used_at}>
          {age(session.used_at, now)}
        </time>
        <button
          class="quiet"
          type="button"
          data-testid="hook-reset"
          title="Forget this session"
          aria-label={`Forget the session of ${session.key}`}
          onClick={confirmReset}
        >
          <Again size={14} />
        </button>
      </span>
    </li>
  );
}

const EVENT_TONES: Record<HookEvent["state"], string> = {
  received: "plain",
  dispatched: "good",
  ignored: "plain",
  failed: "bad",
};

function Event({ event, now }: { event: HookEvent; now: number }) {
  return (
    <li class="job hook" data-testid="hook-event" data-state={event.state}>
      <span class={`chip ${EVENT_TONES[event.state]}`}>{event.state}</span>
      <span class="job-prompt" title={event.why ? visible(event.why) : undefined}>
        {visibleLine(`${event.repo}${event.number ? `#${event.number}` : ""} ${describe(event)}`)}
        {event.why && <span class="muted"> {visibleLine(event.why)}</span>}
      </span>
      <span class="job-note">
        {event.jobs.map((job, at) => (
          <a key={job} href={hashOf({ at: "job", job })}>
            {event.jobs.length > 1 ? `job ${at + 1}` : "job"}
          </a>
        ))}
        <span class="wide">{event.forge}</span>
        <time title={dateTime(event.received_at)} dateTime={event.received_at}>
          {age(event.received_at, now)}
        </time>
      </span>
    </li>
  );
}

const describe = (event: HookEvent): string =>
  `${event.kind.replace(".", " ").replaceAll("_", " ")} by ${event.actor}${event.title ? `: ${event.title}` : ""}`;
