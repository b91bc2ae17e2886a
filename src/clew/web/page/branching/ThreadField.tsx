// A field for the name of a thread, which offers those that the daemon finds.

import { useEffect, useId, useState } from "preact/hooks";
import { http } from "../daemon/http.ts";
import { useStore } from "../state/store.ts";
import { daemon } from "../state/sync.ts";
import { focusOnMount } from "../ui/focus.ts";

const SEARCH_AFTER_MS = 180;
const MAX_OFFERED = 50;

interface Props {
  label: string;
  value: string;
  change: (name: string) => void;
  without: string; // the id of the thread that is not offered
}

export function ThreadField({ label, value, change, without }: Props) {
  const id = useId();
  const listed = useStore(daemon, (now) => now.threads);
  const [found, setFound] = useState<readonly { id: string; name: string }[]>([]);
  useEffect(() => {
    const query = value.trim();
    if (!query) return undefined;
    const timer = setTimeout(
      () => void http.threads(query).then(({ items }) => setFound(items), () => undefined),
      SEARCH_AFTER_MS,
    );
    return () => clearTimeout(timer);
  }, [value]);
  const names = new Set([...listed, ...found].filter((each) => each.id !== without).map((each) => each.name));
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
        placeholder="the name of a thread"
        data-testid="other-thread"
        value={value}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <datalist id={id}>
        {[...names].slice(0, MAX_OFFERED).map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </label>
  );
}
