// The operations view: the long calls of this daemon, those that run and the newest that ended.

import { useEffect } from "preact/hooks";
import type { Operation } from "../daemon/operations.ts";
import type { ExportOperation } from "../daemon/wire.ts";
import { isOver, operations, refreshOperations, type Followed } from "../state/operations.ts";
import { inBackground } from "../state/page.ts";
import { useStore } from "../state/store.ts";
import { age, dateTime, plural } from "../text/format.ts";
import { visibleLine } from "../text/visible.ts";
import { Exported } from "../transfer/ExportThread.tsx";
import { BackToList } from "../ui/BackToList.tsx";
import { useMinute } from "../ui/clock.ts";
import { OperationProgress } from "../ui/Progress.tsx";

export function OperationsView() {
  const all = useStore(operations, (now) => now);
  const now = useMinute();
  useEffect(() => void inBackground(refreshOperations()), []);
  const items = Object.values(all).sort((a, b) => b.operation.started_at.localeCompare(a.operation.started_at));
  const running = items.filter((each) => !isOver(each)).length;
  return (
    <div class="view" data-testid="operations-view">
      <header class="head">
        <BackToList />
        <div class="head-names">
          <h1>Operations</h1>
          <p>{running > 0 ? `${plural(running, "operation")} running` : "none running"}</p>
        </div>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Operations">
        <div class="column wide">
          {items.length === 0 && (
            <div class="empty inside">
              <h2>No operations</h2>
              <p>Exports, imports, pushes, pulls, replays and adoptions are listed here until Clew is restarted.</p>
            </div>
          )}
          <ul class="jobs">
            {items.map((each) => (
              <Row key={each.operation.id} followed={each} now={now} />
            ))}
          </ul>
        </div>
      </div>
    </div>
  );
}

const TONES: Record<Operation["status"], string> = { running: "plain", done: "good", failed: "bad", cancelled: "plain" };

const isExport = (operation: Operation): operation is ExportOperation => operation.kind === "export";

function Row({ followed, now }: { followed: Followed; now: number }) {
  const { operation } = followed;
  return (
    <li class="job archive" data-testid="operation-item">
      <span class={`chip ${TONES[operation.status]}`}>{operation.status}</span>
      <span class="job-prompt">
        {operation.kind.replaceAll("_", " ")} <span class="muted">{visibleLine(operation.subjects.join(", "))}</span>
      </span>
      <span class="job-note">
        <time title={dateTime(operation.started_at)} dateTime={operation.started_at}>
          {age(operation.started_at, now)}
        </time>
      </span>
      {(operation.status !== "done" || operation.file) && (
        <div class="job-more">
          <OperationProgress followed={followed}>
            {isExport(operation) && <Exported operation={operation} />}
          </OperationProgress>
        </div>
      )}
    </li>
  );
}
