// The archives view: threads that were archived or deleted, and can be restored.

import { useEffect } from "preact/hooks";
import { transferCalls } from "../daemon/transfer.ts";
import type { ArchiveFile, RestoredArchive } from "../daemon/wire.ts";
import { archives, refreshArchives } from "../state/archives.ts";
import { openThread } from "../state/open.ts";
import { useOperation } from "../state/operations.ts";
import { page } from "../state/page.ts";
import { useStore } from "../state/store.ts";
import { age, baseName, bytes, dateTime, plural } from "../text/format.ts";
import { visible, visibleLine } from "../text/visible.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { useMinute } from "../ui/clock.ts";
import { LoadError } from "../ui/LoadError.tsx";
import { OperationProgress } from "../ui/Progress.tsx";

export function ArchivesView() {
  const { items, listed, error } = useStore(archives, (now) => now);
  const now = useMinute();
  useEffect(() => void refreshArchives().catch(() => undefined), []);
  return (
    <div class="view" data-testid="archives-view">
      <header class="head">
        <BackToList />
        <div class="head-names">
          <h1>Archives</h1>
          <p>{listed && plural(items.length, "archive")}</p>
        </div>
        <div class="head-actions">
          <button type="button" data-testid="clean" onClick={() => page.patch({ dialog: { is: "clean" } })}>
            Clean up…
          </button>
        </div>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Archives" aria-busy={!listed && !error}>
        <div class="column wide">
          {error && <LoadError problem={error} retry={refreshArchives} />}
          {listed && items.length === 0 && (
            <div class="empty inside">
              <h2>No archives</h2>
              <p>A thread that is archived or deleted is written to a file, from which it can be restored here.</p>
            </div>
          )}
          <ul class="jobs" data-testid="archives">
            {items.map((archive) => (
              <Archive key={archive.file} archive={archive} now={now} />
            ))}
          </ul>
        </div>
      </div>
    </div>
  );
}

function Archive({ archive, now }: { archive: ArchiveFile; now: number }) {
  const { followed, busy, start } = useOperation<RestoredArchive>();
  const restored = followed?.operation.result;
  return (
    <li class="job archive" data-testid="archive-item">
      <span class="chip plain">{archive.kind ?? "unknown"}</span>
      <span class="job-prompt" title={visible(archive.file)}>
        {visible(archive.name)} {archive.problem && <span class="muted">{visibleLine(archive.problem)}</span>}
      </span>
      <span class="job-note">
        {archive.turns !== null && <span>{plural(archive.turns, "turn")}</span>}
        <span>{bytes(archive.size_bytes)}</span>
        <time title={dateTime(archive.archived_at)} dateTime={archive.archived_at}>
          {age(archive.archived_at, now)}
        </time>
        <button
          type="button"
          data-testid="restore"
          aria-label={`Restore ${archive.name}`}
          disabled={busy || archive.problem !== null}
          onClick={() => void start(transferCalls.restore(baseName(archive.file)))}
        >
          Restore
        </button>
      </span>
      {followed && (
        <div class="job-more">
          <OperationProgress followed={followed}>{restored && <Restored restored={restored} />}</OperationProgress>
        </div>
      )}
    </li>
  );
}

const Restored = ({ restored }: { restored: RestoredArchive }) => (
  <div class="ending" data-testid="restored" role="status">
    {restored.threads.map((thread) => (
      <p key={thread.id}>
        <strong>{visible(thread.name)}</strong> is restored with {plural(restored.turns, "turn")}.{" "}
        <button class="link" type="button" onClick={() => openThread(thread.id)}>
          Open
        </button>
      </p>
    ))}
    {restored.copy && <p>It is a copy with new ids, because the thread is here already.</p>}
    {restored.narrowed && <p>Its permissions were narrowed, because the file is from elsewhere.</p>}
  </div>
);
