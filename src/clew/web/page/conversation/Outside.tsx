// Turns that were made outside Clew, in the agent's own CLI: the mark of one that was brought in, and the bar that offers
// to bring in those that are not in the thread yet.

import { useState } from "preact/hooks";
import { bringIn } from "../state/actions.ts";
import { plural } from "../text/format.ts";

const MEANING = "Made outside Clew, in the agent's own CLI, and brought in";

export const OutsideChip = () => (
  <span class="chip plain" data-testid="outside-chip" title={MEANING}>
    outside Clew
  </span>
);

/** `turns`: how many there are. Not shown while a run is active: they can come in only between two runs. */
export function OutsideBar({ thread, turns }: { thread: string; turns: number }) {
  const [busy, setBusy] = useState(false);
  const act = async (): Promise<void> => {
    setBusy(true);
    await bringIn(thread);
    setBusy(false);
  };
  return (
    <section class="outside-bar" aria-label="Turns made outside Clew" data-testid="outside-bar">
      <p role="status">
        {plural(turns, "turn")} {turns === 1 ? "was" : "were"} made outside Clew. The next prompt brings{" "}
        {turns === 1 ? "it" : "them"} in, too.
      </p>
      <button
        type="button"
        data-testid="bring-in"
        disabled={busy}
        title="Adds them to this thread now"
        onClick={() => void act()}
      >
        Bring in
      </button>
    </section>
  );
}
