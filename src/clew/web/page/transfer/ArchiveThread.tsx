// The confirmation before a thread is archived.

import { useState } from "preact/hooks";
import type { Thread } from "../daemon/wire.ts";
import { archiveThread } from "../state/archives.ts";
import { closeDialog } from "../state/page.ts";
import { plural } from "../text/format.ts";

export function ArchiveThread({ thread }: { thread: Thread }) {
  const [busy, setBusy] = useState(false);
  const archive = async (): Promise<void> => {
    setBusy(true);
    if (await archiveThread(thread)) closeDialog();
    setBusy(false);
  };
  return (
    <>
      <p>
        “{thread.name}” with its {plural(thread.turns, "turn")} is written to a file, and is not in the list any more. You can
        restore it from Archives, as long as the file is kept.
      </p>
      {thread.kind === "pair" && <p class="hint">The other thread of the pair is archived with it.</p>}
      <div class="row end">
        <button type="button" autoFocus onClick={closeDialog}>
          Cancel
        </button>
        <button class="primary" type="button" disabled={busy} data-testid="confirm-archive" onClick={() => void archive()}>
          Archive
        </button>
      </div>
    </>
  );
}
