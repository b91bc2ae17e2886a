// The dialog that asks which thread to compare with.

import { useState } from "preact/hooks";
import type { Thread } from "../daemon/wire.ts";
import { http } from "../daemon/http.ts";
import { attempt, closeDialog } from "../state/page.ts";
import { go } from "../state/routes.ts";
import { ThreadField } from "./ThreadField.tsx";

export function CompareWith({ thread }: { thread: Thread }) {
  const source = thread.origin?.of[0]; // a fork or replay is most likely compared with what it was made from
  const [name, setName] = useState(source?.name ?? "");
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const other = await attempt(http.thread(name.trim()));
    if (!other) return;
    closeDialog();
    go({ at: "compare", a: other.id, b: thread.id });
  };
  return (
    <form data-testid="compare-form" onSubmit={(event) => void submit(event)}>
      <ThreadField label="Compare with" value={name} change={setName} without={thread.id} />
      <p class="hint">Shows the turns of both side by side, and the files that their agents wrote to.</p>
      <div class="row end">
        <button type="button" onClick={closeDialog}>
          Cancel
        </button>
        <button class="primary" type="submit" data-testid="start-compare" disabled={!name.trim()}>
          Compare
        </button>
      </div>
    </form>
  );
}
