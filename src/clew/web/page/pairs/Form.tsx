// The form for a new pair.

import { useEffect, useId, useState } from "preact/hooks";
import type { NewPair as NewPairRequest, Permissions, Settings } from "../daemon/wire.ts";
import { page } from "../state/page.ts";
import { startPair } from "../state/pairs.ts";
import { lastFolder } from "../state/storage.ts";
import { useStore } from "../state/store.ts";
import { slug } from "../text/format.ts";
import { jobPermissionOptions } from "../text/labels.ts";
import { focusOnMount } from "../ui/focus.ts";
import { FolderField } from "../ui/FolderField.tsx";
import { Caret } from "../ui/icons.tsx";
import { Radios } from "../ui/Radios.tsx";

interface Fields {
  task: string;
  cwd: string;
  name: string;
  agent: string;
  instructorModel: string;
  workerModel: string;
  rounds: string;
  thinking: boolean;
  permissions: Permissions;
}

const defaults = (settings: Settings): Fields => ({
  task: "",
  cwd: lastFolder.or(settings.cwd),
  name: "",
  agent: settings.agent,
  instructorModel: settings.model ?? "",
  workerModel: settings.model ?? "",
  rounds: "",
  thinking: false,
  permissions: "edits",
});

export function NewPair({ close }: { close: () => void }) {
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
    const made = await startPair(requestBody(fields));
    setBusy(false);
    if (!made) return;
    lastFolder.set(made.cwd);
    close();
  };
  const names = [...new Set([fields.agent, ...(agents ?? []).map((each) => each.name)])];
  return (
    <form data-testid="pair-form" onSubmit={(event) => void submit(event)}>
      <label class="field">
        Task
        <textarea
          rows={4}
          autoFocus
          ref={focusOnMount}
          placeholder="what the instructor should have done"
          data-testid="pair-task"
          value={fields.task}
          onInput={(event) => set({ task: event.currentTarget.value })}
        />
      </label>
      <FolderField value={fields.cwd} change={(cwd) => set({ cwd })} />
      <label class="field">
        Agent of both
        <select
          value={fields.agent}
          onChange={(event) => set({ agent: event.currentTarget.value, instructorModel: "", workerModel: "" })}
        >
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {agent?.problem && (
        <p class="note warning">
          {agent.problem} {agent.hint}
        </p>
      )}
      <div class="pair equal">
        <ModelField
          label="Model of the instructor"
          models={agent?.models ?? []}
          value={fields.instructorModel}
          change={(instructorModel) => set({ instructorModel })}
        />
        <ModelField
          label="Model of the worker"
          models={agent?.models ?? []}
          value={fields.workerModel}
          change={(workerModel) => set({ workerModel })}
        />
      </div>
      <Radios
        legend="Permissions of the worker"
        options={jobPermissionOptions(agent)}
        value={fields.permissions}
        change={(permissions) => set({ permissions })}
      />
      <p class="hint">The instructor reads files and changes none.</p>
      <label class="option">
        <input type="checkbox" checked={fields.thinking} onChange={(event) => set({ thinking: event.currentTarget.checked })} />
        <span>
          Thinking
          <small>The instructor reasons at length before it answers.</small>
        </span>
      </label>
      <details class="fold more-settings">
        <summary>
          <Caret size={12} /> More settings
        </summary>
        <div class="pair">
          <label class="field">
            Rounds
            <input
              type="number"
              min="1"
              max="10000"
              placeholder="10"
              data-testid="pair-rounds"
              value={fields.rounds}
              onInput={(event) => set({ rounds: event.currentTarget.value })}
            />
          </label>
          <label class="field">
            Name
            <input
              type="text"
              placeholder="from the words of the task"
              data-testid="pair-name"
              value={fields.name}
              onInput={(event) => set({ name: event.currentTarget.value })}
            />
          </label>
        </div>
      </details>
      <div class="row end">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button
          class="primary"
          type="submit"
          data-testid="start-pair"
          disabled={busy || !fields.task.trim() || !fields.cwd.trim()}
        >
          Start
        </button>
      </div>
    </form>
  );
}

interface ModelFieldProps {
  label: string;
  models: readonly string[];
  value: string;
  change: (model: string) => void;
}

export function ModelField({ label, models, value, change }: ModelFieldProps) {
  const id = useId();
  return (
    <label class="field">
      {label}
      <input
        type="text"
        list={id}
        spellcheck={false}
        autocomplete="off"
        placeholder="the agent's default"
        value={value}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <datalist id={id}>
        {models.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </label>
  );
}

function requestBody(fields: Fields): NewPairRequest {
  const rounds = Number(fields.rounds);
  return {
    task: fields.task.trim(),
    expand: true,
    cwd: fields.cwd.trim(),
    agent: fields.agent,
    ...(fields.permissions === "ask" ? {} : { permissions: fields.permissions }), // a worker asks nobody
    thinking: fields.thinking,
    ...(slug(fields.name) ? { name: slug(fields.name) } : {}),
    ...(fields.instructorModel.trim() ? { instructor_model: fields.instructorModel.trim() } : {}),
    ...(fields.workerModel.trim() ? { worker_model: fields.workerModel.trim() } : {}),
    ...(rounds > 0 ? { rounds } : {}),
  };
}
