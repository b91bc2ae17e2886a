// The dialog that makes one thread of two.

import { useState } from "preact/hooks";
import { branchingCalls } from "../daemon/branching.ts";
import type { Thread } from "../daemon/wire.ts";
import { attempt, closeDialog, notify } from "../state/page.ts";
import { go } from "../state/routes.ts";
import { plural, slug } from "../text/format.ts";
import { ThreadField } from "./ThreadField.tsx";

export function MergeThreads({ thread }: { thread: Thread }) {
  const [other, setOther] = useState("");
  const [name, setName] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const body = { a: thread.id, b: other.trim(), ...(slug(name) ? { name: slug(name) } : {}) };
    const made = await attempt(branchingCalls.merge(body));
    setBusy(false);
    if (!made) return;
    closeDialog();
    const isPair = "common_rounds" in made;
    go(isPair ? { at: "pair", pair: made.id } : { at: "thread", thread: made.id });
    const common = isPair ? plural(made.common_rounds, "common round") : plural(made.common_turns, "common turn");
    notify(`This is “${made.name}”: ${common}, then the rest of both.`);
  };
  return (
    <form data-testid="merge-form" onSubmit={(event) => void submit(event)}>
      <ThreadField label="Merge with" value={other} change={setOther} without={thread.id} />
      <label class="field">
        Name
        <input
          type="text"
          placeholder="made from both names"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <p class="hint">
        A new thread gets the turns with which both begin, then what each says after that. Both threads stay as they are.
      </p>
      <div class="row end">
        <button type="button" onClick={closeDialog}>
          Cancel
        </button>
        <button class="primary" type="submit" data-testid="start-merge" disabled={busy || !other.trim()}>
          Merge
        </button>
      </div>
    </form>
  );
}
