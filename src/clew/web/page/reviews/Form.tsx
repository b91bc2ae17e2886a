// The form for a new review: which changes of which repository to review, and with which agent.

import { useEffect, useState } from "preact/hooks";
import { AgentFields } from "../agents/Fields.tsx";
import type { Scope, Settings } from "../daemon/wire.ts";
import { startReview } from "../state/actions.ts";
import { page } from "../state/page.ts";
import { lastFolder } from "../state/storage.ts";
import { useStore } from "../state/store.ts";
import { SCOPES } from "../text/labels.ts";
import { focusOnMount } from "../ui/focus.ts";
import { FolderField } from "../ui/FolderField.tsx";
import { Radios } from "../ui/Radios.tsx";

interface Fields {
  cwd: string;
  scope: Scope;
  base: string;
  paths: string; // one per line
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
  if (!fields) return <p>Loading…</p>;
  const set = (part: Partial<Fields>): void => setFields({ ...fields, ...part });
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const started = await startReview(requestBody(fields));
    setBusy(false);
    if (!started) return;
    lastFolder.set(fields.cwd.trim());
    close();
  };
  return (
    <form data-testid="review-form" onSubmit={(event) => void submit(event)}>
      <FolderField value={fields.cwd} change={(cwd) => set({ cwd })} />
      <Radios legend="Changes" options={SCOPES} value={fields.scope} change={(scope) => set({ scope })} />
      {fields.scope !== "unstaged" && (
        <label class="field">
          Compare with
          <input
            type="text"
            spellcheck={false}
            autocomplete="off"
            placeholder="the last commit, or a branch such as main"
            data-testid="review-base"
            value={fields.base}
            onInput={(event) => set({ base: event.currentTarget.value })}
          />
        </label>
      )}
      <label class="field">
        Paths
        <textarea
          rows={1}
          spellcheck={false}
          placeholder="all files, or one path per line"
          data-testid="review-paths"
          value={fields.paths}
          onInput={(event) => set({ paths: event.currentTarget.value })}
        />
      </label>
      <label class="field">
        Focus
        <textarea
          rows={2}
          ref={focusOnMount}
          placeholder="what to look at most closely (optional)"
          data-testid="review-focus"
          value={fields.focus}
          onInput={(event) => set({ focus: event.currentTarget.value })}
        />
      </label>
      <AgentFields fields={fields} change={set} />
      <p class="hint">The reviewer can read files, but not change them.</p>
      <div class="row end">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button class="primary" type="submit" data-testid="start-review" disabled={busy || !fields.cwd.trim()}>
          {busy ? "Reading the changes…" : "Start review"}
        </button>
      </div>
    </form>
  );
}

function requestBody(fields: Fields): Record<string, unknown> {
  const paths = fields.paths.split("\n").filter((path) => path.trim());
  const base = fields.scope === "unstaged" ? "" : fields.base.trim();
  return {
    cwd: fields.cwd.trim(),
    scope: fields.scope,
    agent: fields.agent,
    ...(base ? { base } : {}),
    ...(paths.length > 0 ? { paths } : {}),
    ...(fields.focus.trim() ? { focus: fields.focus.trim(), expand: true } : {}),
    ...(fields.model.trim() ? { model: fields.model.trim() } : {}),
  };
}
