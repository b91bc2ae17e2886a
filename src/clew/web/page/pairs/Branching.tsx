// The dialogs that compare a pair with another, and merge two.

import { useEffect, useId, useState } from "preact/hooks";
import { branchingCalls } from "../daemon/branching.ts";
import { pairCalls } from "../daemon/pairs.ts";
import type { Pair } from "../daemon/wire.ts";
import { attempt, closeDialog, notify } from "../state/page.ts";
import { pairs, refreshPairs } from "../state/pairs.ts";
import { go } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { plural, slug } from "../text/format.ts";
import { focusOnMount } from "../ui/focus.ts";

interface PairFieldProps {
  label: string;
  value: string;
  change: (name: string) => void;
  without: string; // the id of the pair that is not offered
}

function PairField({ label, value, change, without }: PairFieldProps) {
  const id = useId();
  const items = useStore(pairs, (now) => now.items);
  useEffect(() => void refreshPairs().catch(() => undefined), []);
  return (
    <label class="field">
      {label}
      <input
        type="text"
        list={id}
        autoFocus
        ref={focusOnMount}
        spellcheck={false}
        autocomplete="off"
        placeholder="the name of a pair"
        data-testid="other-pair"
        value={value}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <datalist id={id}>
        {items
          .filter((each) => each.id !== without)
          .map((each) => (
            <option key={each.id} value={each.name} />
          ))}
      </datalist>
    </label>
  );
}

export function ComparePair({ pair }: { pair: Pair }) {
  const [name, setName] = useState("");
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const other = await attempt(pairCalls.get(name.trim()));
    if (!other) return;
    closeDialog();
    go({ at: "compare", a: other.id, b: pair.id });
  };
  return (
    <form data-testid="compare-pair-form" onSubmit={(event) => void submit(event)}>
      <PairField label="Compare with" value={name} change={setName} without={pair.id} />
      <p class="hint">Shows the turns of both instructors side by side, then those of both workers, each with its files.</p>
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

export function MergePairs({ pair }: { pair: Pair }) {
  const [other, setOther] = useState("");
  const [name, setName] = useState("");
  const [busy, setBusy] = useState(false);
  const merge = async (): Promise<void> => {
    const found = await attempt(pairCalls.get(other.trim())); // a thread may have that name too
    if (!found) return;
    const body = { a: pair.id, b: found.id, ...(slug(name) ? { name: slug(name) } : {}) };
    const made = await attempt(branchingCalls.merge(body));
    if (!made || !("common_rounds" in made)) return;
    closeDialog();
    go({ at: "pair", pair: made.id });
    notify(`This is “${made.name}”: ${plural(made.common_rounds, "common round")}, then the rest of both.`);
  };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    await merge();
    setBusy(false);
  };
  return (
    <form data-testid="merge-pair-form" onSubmit={(event) => void submit(event)}>
      <PairField label="Merge with" value={other} change={setOther} without={pair.id} />
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
        A new pair gets the rounds with which both begin, then those of each after that. Both pairs stay as they are.
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
