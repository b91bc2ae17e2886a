// Agents that forges wake: their sessions by key, and what became of each event.

import { useEffect } from "preact/hooks";
import { useMinute } from "./clock.ts";
import { hooks, refreshHooks, refreshHookSettings } from "./hooks.ts";
import { Again } from "./icons.tsx";
import { Trouble } from "./Reviews.tsx";
import { useStore } from "./store.ts";
import { page } from "./sync.ts";
import { ToList } from "./ThreadHead.tsx";
import { visible, visibleLine } from "./visible.ts";
import type { HookEvent, HookSession, HookSettings } from "./wire.ts";
import { age, moment, plural } from "./words.ts";

const LOOK_MS = 5_000; // an event that wakes nobody changes no thread, so nothing tells of it

export function Hooks() {
  const { settings, sessions, events, listed, trouble } = useStore(hooks, (now) => now);
  const now = useMinute();
  useEffect(() => {
    const look = (): void => {
      if (document.visibilityState === "visible") void refreshHooks().catch(() => undefined);
    };
    look();
    void refreshHookSettings().catch(() => undefined);
    const timer = setInterval(look, LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <div class="view" data-testid="hooks-view">
      <header class="head">
        <ToList />
        <div class="head-names">
          <h1>Hooks</h1>
          <p data-testid="hook-counts">
            {listed && plural(sessions.length, "session")}
            {sessions.length > 0 && `: ${counted(sessions)}`}
          </p>
        </div>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Hooks" aria-busy={!listed && !trouble}>
        <div class="column wide">
          {trouble && <Trouble problem={trouble} again={refreshHooks} />}
          {settings && <Hints settings={settings} waiting={events.some((event) => event.state === "received")} />}
          <h2>Sessions</h2>
          {listed && sessions.length === 0 && <p class="hint">None: the next event of any issue starts afresh.</p>}
          {sessions.length > 0 && <Places sessions={sessions} />}
          <ul class="jobs" data-testid="hook-sessions">
            {sessions.map((session) => (
              <Session key={session.key} session={session} now={now} />
            ))}
          </ul>
          <h2>Events</h2>
          {listed && events.length === 0 && <p class="hint">No forge has told anything yet.</p>}
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

const count = (sessions: readonly HookSession[], state: HookSession["state"]): number =>
  sessions.filter((each) => each.state === state).length;

/** By state: what the next events would find. */
const counted = (sessions: readonly HookSession[]): string =>
  STATES.flatMap((state) => (count(sessions, state) > 0 ? [`${count(sessions, state)} ${state}`] : [])).join(", ");

/** How many there are, by repository, agent and state. */
function Places({ sessions }: { sessions: readonly HookSession[] }) {
  const places = new Map<string, HookSession[]>();
  for (const session of sessions) {
    const place = `${session.repo} ${session.agent}`; // neither has a space in it
    places.set(place, [...(places.get(place) ?? []), session]);
  }
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Sessions by repository and agent">
      <table class="places" data-testid="hook-places">
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
          {[...places].map(([place, found]) => (
            <tr key={place}>
              <th scope="row">{visible(found[0]?.repo ?? "")}</th>
              <td>{visible(found[0]?.agent ?? "")}</td>
              {STATES.map((state) => (
                <td key={state}>{count(found, state) || "–"}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What is missing before anything can happen. */
function Hints({ settings, waiting }: { settings: HookSettings; waiting: boolean }) {
  if (settings.rules.length > 0 && !settings.forges.some((forge) => forge.has_secret)) {
    return (
      <p class="note warning" data-testid="hook-hint">
        No forge is listened to: start clew serve with its secret in the environment, such as <code>CLEW_GITHUB_SECRET</code>.
      </p>
    );
  }
  return waiting && settings.work === 0 ? (
    <p class="note warning" data-testid="hook-hint">
      This daemon leaves the work to others. If nothing happens, start one: <code>clew work</code>
    </p>
  ) : null;
}

const STATE_TONES: Record<HookSession["state"], string> = { running: "plain", resumable: "resumed", fresh: "fresh" };

function Session({ session, now }: { session: HookSession; now: number }) {
  const ask = (): void => page.patch({ dialog: { is: "reset", session } });
  return (
    <li class="job hook" data-testid="hook-session" data-state={session.state}>
      <span class={`chip ${STATE_TONES[session.state]}`}>
        {session.state === "running" && <span class="pulse" aria-hidden="true" />} {session.state}
      </span>
      <span class="job-prompt">
        <a href={`#/t/${encodeURIComponent(session.thread_id)}`}>{visible(session.key)}</a>{" "}
        {session.last_event && <span class="muted">{visibleLine(told(session.last_event))}</span>}
      </span>
      <span class="job-note">
        <time title={moment(session.used_at)} dateTime={session.used_at}>
          {age(session.used_at, now)}
        </time>
        <button
          class="quiet"
          type="button"
          data-testid="hook-reset"
          title="Forget this session"
          aria-label={`Forget the session of ${session.key}`}
          onClick={ask}
        >
          <Again size={14} />
        </button>
      </span>
    </li>
  );
}

const EVENT_TONES: Record<HookEvent["state"], string> = {
  received: "plain",
  dispatched: "resumed",
  ignored: "plain",
  failed: "fell",
};

function Event({ event, now }: { event: HookEvent; now: number }) {
  return (
    <li class="job hook" data-testid="hook-event" data-state={event.state}>
      <span class={`chip ${EVENT_TONES[event.state]}`}>{event.state}</span>
      <span class="job-prompt" title={event.why ? visible(event.why) : undefined}>
        {visibleLine(`${event.repo}${event.number ? `#${event.number}` : ""} ${told(event)}`)}
        {event.why && <span class="muted"> {visibleLine(event.why)}</span>}
      </span>
      <span class="job-note">
        {event.jobs.map((job, at) => (
          <a key={job} href={`#/jobs/${encodeURIComponent(job)}`}>
            {event.jobs.length > 1 ? `job ${at + 1}` : "job"}
          </a>
        ))}
        <span class="wide">{event.forge}</span>
        <time title={moment(event.received_at)} dateTime={event.received_at}>
          {age(event.received_at, now)}
        </time>
      </span>
    </li>
  );
}

const told = (event: HookEvent): string =>
  `${event.kind.replace(".", " ").replaceAll("_", " ")} by ${event.actor}${event.title ? `: ${event.title}` : ""}`;
