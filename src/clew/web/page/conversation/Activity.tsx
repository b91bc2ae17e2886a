// What an active run is doing at the moment, and for how long.

import type { Run } from "../daemon/wire.ts";
import { isOpen, type Progress } from "../state/progress.ts";
import { duration } from "../text/format.ts";
import { visibleLine } from "../text/visible.ts";
import { useNow } from "../ui/clock.ts";
import { SessionChip } from "./Badge.tsx";

export const RunActivity = ({ run, progress }: { run: Run; progress: Progress | null }) => (
  <p class="activity" data-testid="activity" role="status">
    <span class="pulse" aria-hidden="true" />
    {activity(run, progress)}
    {progress?.startedAt && <Elapsed since={progress.startedAt} />}
    {progress && progress.resumed !== null && (
      <SessionChip
        resumed={progress.resumed}
        reason={progress.reason}
        rewoundTo={progress.rewoundTo}
        fallback={progress.fellBack !== null}
      />
    )}
  </p>
);

function activity(run: Run, progress: Progress | null): string {
  if (run.cancel_requested) return "stopping…";
  if (run.status === "waiting") return "waiting for you";
  if (run.status === "queued") {
    if (progress?.waitingFor === "terminal") return "waiting: the thread is open in a terminal, or is being compacted";
    return progress?.waitingFor === "slot" ? "waiting: the maximum number of agents is running" : "starting…";
  }
  const tool = progress?.parts.findLast(isOpen);
  if (tool) return `running ${visibleLine(tool.name)}…`;
  return progress?.parts.length ? "writing…" : "thinking…";
}

const SHOW_ELAPSED_AFTER_MS = 5_000;

function Elapsed({ since }: { since: string }) {
  const ms = useNow(1000) - Date.parse(since);
  return ms < SHOW_ELAPSED_AFTER_MS ? null : <span aria-hidden="true">{duration(ms)}</span>;
}
