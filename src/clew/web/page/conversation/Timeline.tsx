// A rail at the side with one tick for each thing the user said: where am I, and back to any of them.

import { visibleLine } from "./visible.ts";
import type { Turn } from "./wire.ts";

const MOST = 60; // ticks; of a longer thread the newest

export function Timeline({ turns, box }: { turns: readonly Turn[]; box: { current: HTMLDivElement | null } }) {
  const asked = turns.filter((turn) => turn.role === "user");
  if (asked.length < 3) return null;
  const jump = (id: string): void => {
    const element = box.current?.querySelector<HTMLElement>(`[data-turn="${CSS.escape(id)}"]`);
    element?.scrollIntoView({ block: "start" });
    // What was far away gets its real height only now: once more, for the right place.
    requestAnimationFrame(() => element?.scrollIntoView({ block: "start" }));
  };
  return (
    <nav class="timeline" aria-label="Jump to a turn" data-testid="timeline">
      {asked.slice(-MOST).map((turn) => {
        const words = visibleLine(turn.text, 80);
        return (
          <button key={turn.id} type="button" aria-label={`Go to: ${words}`} onClick={() => jump(turn.id)}>
            <span class="tick" aria-hidden="true" />
            <span class="tip" aria-hidden="true">
              {words}
            </span>
          </button>
        );
      })}
    </nav>
  );
}
