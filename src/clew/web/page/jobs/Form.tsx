// The form of a new job.

import { useEffect, useState } from "preact/hooks";
import { submitJob } from "./actions.ts";
import { FolderField } from "./FolderField.tsx";
import { Caret } from "./icons.tsx";
import { lastFolder } from "./keep.ts";
import { focused } from "./near.ts";
import { useStore } from "./store.ts";
import { page } from "./sync.ts";
import { AgentFields, Radios } from "./ThreadForm.tsx";
import type { Permissions, Settings } from "./wire.ts";
import { jobPermissionWords } from "./words.ts";

interface Fields {
  prompt: string;
  cwd: string;
  agent: string;
  model: string;
  permissions: Permissions;
  key: string;
  checkpoint: boolean;
  minutes: string; // of one run
  delay: string; // minutes
  deadline: string; // as the browser's own field has it, in local time
}

const defaults = (settings: Settings): Fields => ({
  prompt: "",
  cwd: lastFolder.or(settings.cwd),
  agent: settings.agent,
  model: settings.model ?? "",
  permissions: "edits",
  key: "",
  checkpoint: false,
  minutes: "30",
  delay: "",
  deadline: "",
});

export function NewJob({ close }: { close: () => void }) {
  const settings = useStore(page, (now) => now.settings);
  const agents = useStore(page, (now) => now.agents);
  const [fields, setFields] = useState<Fields | null>(settings && defaults(settings));
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    if (settings && !fields) setFields(defaults(settings));
  }, [settings]);
  if (!fields) return <p>One moment…</p>;
  const agent = agents?.find((each) => each.name === fields.agent);
  const set = (part: Partial<Fields>): void => setFields({ ...fields, ...part });
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const made = await submitJob(body(fields));
    setBusy(false);
    if (!made) return;
    lastFolder.set(made.cwd);
    close();
  };
  return (
    <form data-testid="job-form" onSubmit={(event) => void submit(event)}>
      <label class="field">
        What is to be done
        <textarea
          rows={4}
          autoFocus
          ref={focused}
          placeholder="all that the agent needs to know; nobody is there to be asked"
          data-testid="job-prompt"
          value={fields.prompt}
          onInput={(event) => set({ prompt: event.currentTarget.value })}
        />
      </label>
      <FolderField value={fields.cwd} change={(cwd) => set({ cwd })} />
      <AgentFields fields={fields} change={set} />
      <Radios
        legend="Permissions"
        options={jobPermissionWords(agent)}
        value={fields.permissions}
        change={(permissions) => set({ permissions })}
      />
      <label class="option">
        <input
          type="checkbox"
          data-testid="job-checkpoint"
          checked={fields.checkpoint}
          onChange={(event) => set({ checkpoint: event.currentTarget.checked })}
        />
        <span>
          Keep checkpoints
          <small>The files are kept in the repository as the job goes on. Your branch and index are left alone.</small>
        </span>
      </label>
      <Further fields={fields} set={set} />
      <div class="row end">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button
          class="primary"
          type="submit"
          data-testid="submit-job"
          disabled={busy || !fields.prompt.trim() || !fields.cwd.trim()}
        >
          Submit
        </button>
      </div>
    </form>
  );
}

function Further({ fields, set }: { fields: Fields; set: (part: Partial<Fields>) => void }) {
  return (
    <details class="fold further">
      <summary>
        <Caret size={12} /> Further settings
      </summary>
      <label class="field">
        Key
        <input
          type="text"
          data-testid="job-key"
          placeholder="jobs of one key run one at a time, in order"
          value={fields.key}
          onInput={(event) => set({ key: event.currentTarget.value })}
        />
      </label>
      <div class="pair">
        <label class="field">
          Minutes of a run
          <input
            type="number"
            min="1"
            value={fields.minutes}
            onInput={(event) => set({ minutes: event.currentTarget.value })}
          />
        </label>
        <label class="field">
          Begin in (minutes)
          <input
            type="number"
            min="0"
            placeholder="at once"
            value={fields.delay}
            onInput={(event) => set({ delay: event.currentTarget.value })}
          />
        </label>
      </div>
      <label class="field">
        Give up at
        <input
          type="datetime-local"
          value={fields.deadline}
          onInput={(event) => set({ deadline: event.currentTarget.value })}
        />
      </label>
    </details>
  );
}

function body(fields: Fields): Record<string, unknown> {
  const minutes = Number(fields.minutes);
  const delay = Number(fields.delay);
  return {
    prompt: fields.prompt,
    cwd: fields.cwd.trim(),
    agent: fields.agent,
    permissions: fields.permissions,
    checkpoint: fields.checkpoint,
    ...(fields.model.trim() ? { model: fields.model.trim() } : {}),
    ...(fields.key.trim() ? { key: fields.key.trim() } : {}),
    ...(minutes > 0 ? { timeout_s: minutes * 60 } : {}),
    ...(delay > 0 ? { delay_s: delay * 60 } : {}),
    ...(fields.deadline ? { deadline_at: new Date(fields.deadline).toISOString() } : {}),
  };
}
