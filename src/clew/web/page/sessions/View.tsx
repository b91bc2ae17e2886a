// The sessions view: sessions of the agents' own programs on this machine, which can be adopted as threads.

import { useEffect, useState } from "preact/hooks";
import { branchingCalls } from "../daemon/branching.ts";
import type { Adoption, AgentSession } from "../daemon/wire.ts";
import { openByName } from "../state/open.ts";
import { isOver, useOperation } from "../state/operations.ts";
import { page } from "../state/page.ts";
import { chooseAgent, loadMoreSessions, refreshSessions, sessions } from "../state/sessions.ts";
import { useStore } from "../state/store.ts";
import { age, bytes, dateTime, plural, shortPath } from "../text/format.ts";
import { visible, visibleLine } from "../text/visible.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { useMinute } from "../ui/clock.ts";
import { LoadError } from "../ui/LoadError.tsx";
import { OperationProgress } from "../ui/Progress.tsx";

export function SessionsView() {
  const { items, more, listed, error, agent } = useStore(sessions, (now) => now);
  const agents = useStore(page, (now) => now.agents);
  const now = useMinute();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [words, setWords] = useState("");
  const { followed, busy, start } = useOperation<Adoption>((result) => {
    if (result.items.some((each) => each.adopted)) setChosen(new Set());
    void refreshSessions().catch(() => undefined);
  });
  const [isDryRun, setIsDryRun] = useState(false);
  useEffect(() => void refreshSessions().catch(() => undefined), []);
  const shown = items.filter((session) => matches(session, words));
  const adopt = (dryRun: boolean): void => {
    setIsDryRun(dryRun);
    void start(branchingCalls.adopt({ ids: [...chosen], ...(dryRun ? { dry_run: true } : {}) }));
  };
  const toggle = (id: string): void => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const free = shown.filter((session) => !session.thread).map((session) => session.id);
  const isAll = free.length > 0 && free.every((id) => chosen.has(id));
  return (
    <div class="view" data-testid="sessions-view">
      <header class="head">
        <BackToList />
        <div class="head-names">
          <h1>Sessions</h1>
          <p>of the agents' own programs on this machine</p>
        </div>
        <div class="head-actions">
          <button type="button" data-testid="check-adopt" disabled={busy || chosen.size === 0} onClick={() => adopt(true)}>
            Check only
          </button>
          <button
            class="primary"
            type="button"
            data-testid="adopt"
            disabled={busy || chosen.size === 0}
            onClick={() => adopt(false)}
          >
            Adopt{chosen.size > 0 && ` ${chosen.size}`}
          </button>
        </div>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Sessions" aria-busy={!listed && !error}>
        <div class="column wide">
          <form class="filters" role="search" aria-label="Filter sessions" onSubmit={(event) => event.preventDefault()}>
            <input
              type="search"
              aria-label="Filter by words or directory"
              placeholder="Filter by words or directory"
              data-testid="session-filter"
              value={words}
              onInput={(event) => setWords(event.currentTarget.value)}
            />
            <select
              aria-label="Which agent"
              value={agent}
              onChange={(event) => chooseAgent(event.currentTarget.value)}
            >
              <option value="">all agents</option>
              {(agents ?? []).map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </form>
          {followed && (
            <OperationProgress followed={followed}>
              {followed.operation.result && <Adopted result={followed.operation.result} dryRun={isDryRun} />}
            </OperationProgress>
          )}
          {error && <LoadError problem={error} retry={refreshSessions} />}
          {listed && shown.length === 0 && (
            <div class="empty inside">
              <h2>{items.length > 0 ? "No such sessions" : "No sessions"}</h2>
              {items.length === 0 && (
                <p>When you use an agent without Clew, its sessions are listed here, and you can continue them as threads.</p>
              )}
            </div>
          )}
          {free.length > 1 && (
            <label class="option">
              <input
                type="checkbox"
                data-testid="choose-all"
                checked={isAll}
                onChange={() => setChosen(new Set(isAll ? [] : free))}
              />
              <span>All {free.length} that belong to no thread</span>
            </label>
          )}
          <ul class="jobs" data-testid="sessions">
            {shown.map((session) => (
              <Row
                key={`${session.agent} ${session.id}`}
                session={session}
                now={now}
                chosen={chosen.has(session.id)}
                toggle={() => toggle(session.id)}
                disabled={followed !== null && !isOver(followed)}
              />
            ))}
          </ul>
          {more && (
            <button class="quiet earlier" type="button" onClick={() => void loadMoreSessions().catch(() => undefined)}>
              Show older ones
            </button>
          )}
        </div>
      </div>
    </div>
  );
}

const matches = ({ first_words, cwd, thread, id }: AgentSession, words: string): boolean => {
  const wanted = words.trim().toLowerCase();
  return [first_words, cwd ?? "", thread ?? ""].some((text) => text.toLowerCase().includes(wanted)) || id.startsWith(wanted);
};

interface RowProps {
  session: AgentSession;
  now: number;
  chosen: boolean;
  toggle: () => void;
  disabled: boolean;
}

function Row({ session, now, chosen, toggle, disabled }: RowProps) {
  const home = useStore(page, (state) => state.settings?.home);
  const thread = session.thread;
  return (
    <li class="job session" data-testid="session-item">
      <label class="session-choice">
        <input
          type="checkbox"
          checked={chosen}
          disabled={disabled}
          aria-label={`Choose ${visibleLine(session.first_words, 60) || session.id}`}
          onChange={toggle}
        />
        {visible(session.agent)}
      </label>
      <span class="job-prompt" title={visible(session.id)}>
        {visibleLine(session.first_words) || <span class="muted">{visible(session.id)}</span>}
      </span>
      <span class="job-note">
        {thread && (
          <button class="link" type="button" title="The thread that it belongs to" onClick={() => void openByName(thread)}>
            {visible(thread)}
          </button>
        )}
        {session.cwd && (
          <span class="folder" title={visible(session.cwd)}>
            {visible(shortPath(session.cwd, home))}
          </span>
        )}
        <span>{bytes(session.size_bytes)}</span>
        <time title={dateTime(session.changed_at)} dateTime={session.changed_at}>
          {age(session.changed_at, now)}
        </time>
      </span>
    </li>
  );
}

function Adopted({ result, dryRun }: { result: Adoption; dryRun: boolean }) {
  return (
    <div class="ending" data-testid="adopted" role="status">
      <ul class="results">
        {result.items.map((each) => (
          <li key={`${each.agent} ${each.id}`}>
            {each.adopted ? (
              <>
                {dryRun ? "Would be adopted: " : "Adopted: "}
                <strong>{visible(each.thread ?? visibleLine(each.first_words))}</strong>{" "}
                <span class="muted">{plural(each.turns, "turn")}</span>{" "}
                {!dryRun && each.thread && (
                  <button class="link" type="button" data-testid="open-adopted" onClick={() => void openByName(each.thread ?? "")}>
                    Open
                  </button>
                )}
              </>
            ) : (
              <>
                Not adopted: {visibleLine(each.first_words, 80) || visible(each.id)}
                {each.why && <span class="muted"> {visible(each.why)}</span>}
              </>
            )}
          </li>
        ))}
        {result.errors.map((failure) => (
          <li key={failure.message}>
            {visible(failure.message)} {failure.hint && visible(failure.hint)}
          </li>
        ))}
      </ul>
    </div>
  );
}
