// What a running pair is doing at the moment, computed from its events by a pure function.

import type { PairEvent } from "../daemon/pairs.ts";
import type { PairPart } from "../daemon/wire.ts";
import { applyEvents, NO_PROGRESS, type Progress } from "./progress.ts";

export interface PairProgress {
  round: number;
  part: PairPart | null; // whose run is active; null: none
  run: string | null;
  model: string | null;
  progress: Progress; // of that run
  warnings: readonly string[];
}

export const NO_PAIR_PROGRESS: PairProgress = {
  round: 0,
  part: null,
  run: null,
  model: null,
  progress: NO_PROGRESS,
  warnings: [],
};

export function withPairEvent(now: PairProgress, event: PairEvent): PairProgress {
  switch (event.type) {
    case "asked":
      return {
        ...now,
        round: event.round,
        part: event.part,
        run: event.run_id,
        model: event.model,
        progress: NO_PROGRESS,
      };
    case "heard": {
      const known = event.run_id === now.run ? now : { ...now, run: event.run_id, model: null, progress: NO_PROGRESS };
      const { kind, ...body } = event.event;
      const next = { seq: known.progress.seq + 1, at: "", kind, body };
      return { ...known, round: event.round, part: event.part, progress: applyEvents(known.progress, [next]) };
    }
    case "warned":
      return now.warnings.includes(event.message) ? now : { ...now, warnings: [...now.warnings, event.message] };
    case "ordered":
    case "worked":
    case "pair":
      return { ...now, part: null, progress: NO_PROGRESS };
    default:
      return now;
  }
}
