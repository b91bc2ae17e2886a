// The dialog that shows which threads are at a remote, and pulls some of them.

import { useState } from "preact/hooks";
import { transferCalls } from "../daemon/transfer.ts";
import type { Pull, RemoteThread, RemoteThreads } from "../daemon/wire.ts";
import { useOperation } from "../state/operations.ts";
import { attempt, closeDialog, page } from "../state/page.ts";
import { lastFolder } from "../state/storage.ts";
import { useStore } from "../state/store.ts";
import { age, bytes, plural } from "../text/format.ts";
import { visible } from "../text/visible.ts";
import { useMinute } from "../ui/clock.ts";
import { FolderField } from "../ui/FolderField.tsx";
import { OperationProgress } from "../ui/Progress.tsx";
import { remoteBody, RemoteFields, useRemote } from "./RemoteFields.tsx";
import { Results } from "./Results.tsx";

export function PullThreads() {
  const settings = useStore(page, (now) => now.settings);
  const [remote, setRemote] = useRemote();
  const [there, setThere] = useState<RemoteThreads | null>(null);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [cwd, setCwd] = useState(lastFolder.or(settings?.cwd ?? ""));
  const [listing, setListing] = useState(false);
  const { followed, busy, start } = useOperation<Pull>();
  const list = async (): Promise<void> => {
    setListing(true);
    const found = await attempt(transferCalls.remoteThreads(remoteBody(remote)));
    setListing(false);
    setThere(found);
    setChosen(new Set(found?.threads.length === 1 ? [found.threads[0]?.id ?? ""] : []));
  };
  const pull = (dryRun: boolean): void => {
    const body = { ...remoteBody(remote), cwd: cwd.trim(), threads: [...chosen], ...(dryRun ? { dry_run: true } : {}) };
    void start(transferCalls.pull(body), cwd);
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    if (there) pull(false);
    else void list();
  };
  const toggle = (id: string): void => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const result = followed?.operation.result;
  return (
    <form data-testid="pull-form" onSubmit={submit}>
      <RemoteFields remote={remote} change={(part) => (setThere(null), setRemote(part))} />
      {there && <Chooser there={there} chosen={chosen} toggle={toggle} all={(ids) => setChosen(new Set(ids))} />}
      {there && there.threads.length > 0 && (
        <>
          <FolderField value={cwd} change={setCwd} />
          <p class="hint">The directory of threads that are not here yet.</p>
        </>
      )}
      {followed && (
        <OperationProgress followed={followed}>
          {result && <Results threads={result.threads} dryRun={result.dry_run} />}
        </OperationProgress>
      )}
      <div class="row end">
        <button type="button" onClick={closeDialog}>
          Close
        </button>
        {there ? (
          <>
            <button type="button" disabled={busy || chosen.size === 0 || !cwd.trim()} onClick={() => pull(true)}>
              Check only
            </button>
            <button
              class="primary"
              type="submit"
              data-testid="start-pull"
              disabled={busy || chosen.size === 0 || !cwd.trim()}
            >
              Pull {plural(chosen.size, "thread")}
            </button>
          </>
        ) : (
          <button class="primary" type="submit" data-testid="list-remote" disabled={listing}>
            {listing ? "Looking…" : "Show what is there"}
          </button>
        )}
      </div>
    </form>
  );
}

interface ChooserProps {
  there: RemoteThreads;
  chosen: ReadonlySet<string>;
  toggle: (id: string) => void;
  all: (ids: string[]) => void;
}

function Chooser({ there, chosen, toggle, all }: ChooserProps) {
  const now = useMinute();
  const isAll = there.threads.every((thread) => chosen.has(thread.id));
  return (
    <fieldset data-testid="remote-threads">
      <legend>Threads at the remote</legend>
      {there.problems.map((problem) => (
        <p key={problem} class="note warning">
          {visible(problem)}
        </p>
      ))}
      {there.threads.length === 0 && <p class="hint">There are none.</p>}
      {there.threads.length > 1 && (
        <label class="option">
          <input type="checkbox" checked={isAll} onChange={() => all(isAll ? [] : there.threads.map(({ id }) => id))} />
          <span>All</span>
        </label>
      )}
      {there.threads.map((thread) => (
        <label key={thread.id} class="option">
          <input type="checkbox" checked={chosen.has(thread.id)} onChange={() => toggle(thread.id)} />
          <span>
            {visible(thread.name)}
            <small>{describe(thread, now)}</small>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

const describe = (thread: RemoteThread, now: number): string =>
  [thread.agent, plural(thread.turns, "turn"), bytes(thread.size_bytes), `pushed ${age(thread.pushed_at, now)}`].join(" · ");
