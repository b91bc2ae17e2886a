// The form of a new review: which changes of which repository are looked at, and by whom.

import { useEffect, useState } from "preact/hooks";
import { startReview } from "./actions.ts";
import { FolderField } from "./FolderField.tsx";
import { lastFolder } from "./keep.ts";
import { focused } from "./near.ts";
import { useStore } from "./store.ts";
import { page } from "./sync.ts";
import { AgentFields, Radios } from "./ThreadForm.tsx";
import type { Scope, Settings } from "./wire.ts";
import { SCOPES } from "./words.ts";

interface Fields {
  cwd: string;
  scope: Scope;
  base: string;
  paths: string; // one a line
  focus: string;
  agent: string;
  model: string;
}

const defaults = (settings: Settings): Fields => ({
  cwd: lastFolder.or(settings.cwd),
  scope: "all",
  base: "",
  paths: "",
  focus: "",
  agent: settings.agent,
  model: settings.model ?? "",
});

export function NewReview({ close }: { close: () => void }) {
  const settings = useStore(page, (now) => now.settings);
  const [fields, setFields] = useState<Fields | null>(settings && defaults(settings));
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    if (settings && !fields) setFields(defaults(settings));
  }, [settings]);
  if (!fields) return <p>One moment…</p>;
  const set = (part: Partial<Fields>): void => setFields({ ...fields, ...part });
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const begun = await startReview(body(fields));
    setBusy(false);
    if (!begun) return;
    lastFolder.set(fields.cwd.trim());
    close();
  };
  return (
    <form data-testid="review-form" onSubmit={(event) => void submit(event)}>
      <FolderField value={fields.cwd} change={(cwd) => set({ cwd })} />
      <Radios legend="Changes" options={SCOPES} value={fields.scope} change={(scope) => set({ scope })} />
      {fields.scope !== "unstaged" && (
        <label class="field">
          Since
          <input
            type="text"
            spellcheck={false}
            autocomplete="off"
            placeholder="the last commit, or a branch: main"
            data-testid="review-base"
            value={fields.base}
            onInput={(event) => set({ base: event.currentTarget.value })}
          />
        </label>
      )}
      <label class="field">
        Only in
        <textarea
          rows={1}
          spellcheck={false}
          placeholder="everything, or paths, one a line"
          data-testid="review-paths"
          value={fields.paths}
          onInput={(event) => set({ paths: event.currentTarget.value })}
        />
      </label>
      <label class="field">
        Look most of all at
        <textarea
          rows={2}
          ref={focused}
          placeholder="may be left out"
          data-testid="review-focus"
          value={fields.focus}
          onInput={(event) => set({ focus: event.currentTarget.value })}
        />
      </label>
      <AgentFields fields={fields} change={set} />
      <p class="hint">The reviewer may read, and change nothing.</p>
      <div class="row end">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button class="primary" type="submit" data-testid="start-review" disabled={busy || !fields.cwd.trim()}>
          {busy ? "Reading the changes…" : "Review"}
        </button>
      </div>
    </form>
  );
}

function body(fields: Fields): Record<string, unknown> {
  const paths = fields.paths.split("\n").filter((path) => path.trim());
  const base = fields.scope === "unstaged" ? "" : fields.base.trim();
  return {
    cwd: fields.cwd.trim(),
    scope: fields.scope,
    agent: fields.agent,
    ...(base ? { base } : {}),
    ...(paths.length > 0 ? { paths } : {}),
    ...(fields.focus.trim() ? { focus: fields.focus.trim() } : {}),
    ...(fields.model.trim() ? { model: fields.model.trim() } : {}),
  };
}
