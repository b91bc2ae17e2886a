// The form for a new job.

import { useEffect, useState } from "preact/hooks";
import { AgentFields } from "../agents/Fields.tsx";
import type { Permissions, Settings } from "../daemon/wire.ts";
import { submitJob } from "../state/actions.ts";
import { page } from "../state/page.ts";
import { lastFolder } from "../state/storage.ts";
import { useStore } from "../state/store.ts";
import { jobPermissionOptions } from "../text/labels.ts";
import { focusOnMount } from "../ui/focus.ts";
import { FolderField } from "../ui/FolderField.tsx";
import { Caret } from "../ui/icons.tsx";
import { Radios } from "../ui/Radios.tsx";

interface Fields {
  prompt: string;
  cwd: string;
  agent: string;
  model: string;
  permissions: Permissions;
  key: string;
  priority: string;
  checkpoint: boolean;
  timeoutMinutes: string; // of one run
  delayMinutes: string;
  deadline: string; // in local time, in the format of the browser's field
}

const defaults = (settings: Settings): Fields => ({
  prompt: "",
  cwd: lastFolder.or(settings.cwd),
  agent: settings.agent,
  model: settings.model ?? "",
  permissions: "edits",
  key: "",
  priority: "",
  checkpoint: false,
  timeoutMinutes: "30",
  delayMinutes: "",
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
  if (!fields) return <p>Loading…</p>;
  const agent = agents?.find((each) => each.name === fields.agent);
  const set = (part: Partial<Fields>): void => setFields({ ...fields, ...part });
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const made = await submitJob(requestBody(fields));
    setBusy(false);
    if (!made) return;
    lastFolder.set(made.cwd);
    close();
  };
  return (
    <form data-testid="job-form" onSubmit={(event) => void submit(event)}>
      <label class="field">
        Prompt
        <textarea
          rows={4}
          autoFocus
          ref={focusOnMount}
          placeholder="everything the agent needs to know, because it cannot ask you"
          data-testid="job-prompt"
          value={fields.prompt}
          onInput={(event) => set({ prompt: event.currentTarget.value })}
        />
      </label>
      <FolderField value={fields.cwd} change={(cwd) => set({ cwd })} />
      <AgentFields fields={fields} change={set} />
      <Radios
        legend="Permissions"
        options={jobPermissionOptions(agent)}
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
          <small>
            Snapshots of the files are stored in the repository while the job runs. Your branch and index do not change.
          </small>
        </span>
      </label>
      <MoreSettings fields={fields} set={set} />
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

function MoreSettings({ fields, set }: { fields: Fields; set: (part: Partial<Fields>) => void }) {
  return (
    <details class="fold more-settings">
      <summary>
        <Caret size={12} /> More settings
      </summary>
      <label class="field">
        Key
        <input
          type="text"
          data-testid="job-key"
          placeholder="jobs with the same key run one at a time, in order"
          value={fields.key}
          onInput={(event) => set({ key: event.currentTarget.value })}
        />
      </label>
      <label class="field">
        Priority
        <input
          type="number"
          min="1"
          max="100"
          data-testid="job-priority"
          placeholder="50; 1 is the most urgent of the jobs that wait, 100 the least"
          value={fields.priority}
          onInput={(event) => set({ priority: event.currentTarget.value })}
        />
      </label>
      <div class="pair">
        <label class="field">
          Time limit of a run (minutes)
          <input
            type="number"
            min="1"
            value={fields.timeoutMinutes}
            onInput={(event) => set({ timeoutMinutes: event.currentTarget.value })}
          />
        </label>
        <label class="field">
          Start after (minutes)
          <input
            type="number"
            min="0"
            placeholder="now"
            value={fields.delayMinutes}
            onInput={(event) => set({ delayMinutes: event.currentTarget.value })}
          />
        </label>
      </div>
      <label class="field">
        Deadline
        <input
          type="datetime-local"
          value={fields.deadline}
          onInput={(event) => set({ deadline: event.currentTarget.value })}
        />
      </label>
    </details>
  );
}

function requestBody(fields: Fields): Record<string, unknown> {
  const timeoutMinutes = Number(fields.timeoutMinutes);
  const delayMinutes = Number(fields.delayMinutes);
  return {
    prompt: fields.prompt,
    expand: true,
    cwd: fields.cwd.trim(),
    agent: fields.agent,
    permissions: fields.permissions,
    checkpoint: fields.checkpoint,
    ...(fields.model.trim() ? { model: fields.model.trim() } : {}),
    ...(fields.key.trim() ? { key: fields.key.trim() } : {}),
    ...(fields.priority ? { priority: Number(fields.priority) } : {}),
    ...(timeoutMinutes > 0 ? { timeout_s: timeoutMinutes * 60 } : {}),
    ...(delayMinutes > 0 ? { delay_s: delayMinutes * 60 } : {}),
    ...(fields.deadline ? { deadline_at: new Date(fields.deadline).toISOString() } : {}),
  };
}
