// The timeline beside a conversation: one tick for each prompt, which jumps to it.

import type { Turn } from "../daemon/wire.ts";
import { visibleLine } from "../text/visible.ts";

const MAX_TICKS = 60; // the newest ones

export function Timeline({ turns, box }: { turns: readonly Turn[]; box: { current: HTMLDivElement | null } }) {
  const prompts = turns.filter((turn) => turn.role === "user");
  if (prompts.length < 3) return null;
  const jump = (id: string): void => {
    const element = box.current?.querySelector<HTMLElement>(`[data-turn="${CSS.escape(id)}"]`);
    element?.scrollIntoView({ block: "start" });
    // Turns far away get their real height only now, so it scrolls once more to the right place.
    requestAnimationFrame(() => element?.scrollIntoView({ block: "start" }));
  };
  return (
    <nav class="timeline" aria-label="Jump to a turn" data-testid="timeline">
      {prompts.slice(-MAX_TICKS).map((turn) => {
        const start = visibleLine(turn.typed ?? turn.text, 80);
        return (
          <button key={turn.id} type="button" aria-label={`Go to: ${start}`} onClick={() => jump(turn.id)}>
            <span class="tick" aria-hidden="true" />
            <span class="tip" aria-hidden="true">
              {start}
            </span>
          </button>
        );
      })}
    </nav>
  );
}
