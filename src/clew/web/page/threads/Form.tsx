// The form for a new thread, and the settings of an existing one, which have the same fields.

import { useEffect, useState } from "preact/hooks";
import { AgentFields } from "../agents/Fields.tsx";
import type { Permissions, Settings, Thread, Visibility } from "../daemon/wire.ts";
import { ask, changeThread, makeThread, refillComposer } from "../state/actions.ts";
import { page } from "../state/page.ts";
import { lastFolder } from "../state/storage.ts";
import { useStore } from "../state/store.ts";
import { slug } from "../text/format.ts";
import { permissionOptions, VISIBILITIES } from "../text/labels.ts";
import { visible } from "../text/visible.ts";
import { focusOnMount } from "../ui/focus.ts";
import { FolderField } from "../ui/FolderField.tsx";
import { Caret } from "../ui/icons.tsx";
import { Radios } from "../ui/Radios.tsx";

interface Fields {
  cwd: string;
  agent: string;
  model: string;
  permissions: Permissions;
  trust: "user" | "project";
  visibility: Visibility;
  instructions: string;
}

const defaults = (settings: Settings): Fields => ({
  cwd: lastFolder.or(settings.cwd),
  agent: settings.agent,
  model: settings.model ?? "",
  permissions: settings.permissions,
  trust: "user",
  visibility: settings.visibility,
  instructions: "",
});

export function NewThread({ close }: { close: () => void }) {
  const settings = useStore(page, (now) => now.settings);
  const [name, setName] = useState("");
  const [first, setFirst] = useState("");
  const [fields, setFields] = useState<Fields | null>(settings && defaults(settings));
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    if (settings && !fields) setFields(defaults(settings));
  }, [settings]);
  if (!fields) return <p>Loading…</p>;
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const made = await makeThread(requestBody(fields, slug(name), first));
    setBusy(false);
    if (!made) return;
    if (first.trim() && !(await ask(made.id, first.trim()))) refillComposer(made.id, first);
    lastFolder.set(made.cwd);
    close();
  };
  return (
    <form data-testid="thread-form" onSubmit={(event) => void submit(event)}>
      <label class="field">
        First message
        <textarea
          rows={3}
          autoFocus
          ref={focusOnMount}
          placeholder="what the agent should do (optional)"
          data-testid="first-message"
          value={first}
          onInput={(event) => setFirst(event.currentTarget.value)}
        />
      </label>
      <FolderField value={fields.cwd} change={(cwd) => setFields({ ...fields, cwd })} />
      <label class="field">
        Name
        <input
          type="text"
          placeholder={slug(first.trim().split(/\s+/).slice(0, 5).join(" ")).toLowerCase() || "taken from the first message"}
          data-testid="thread-name-field"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <AgentAndPermissions fields={fields} change={setFields} />
      <MoreSettings fields={fields} change={setFields} />
      <div class="row end">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button class="primary" type="submit" disabled={busy || !fields.cwd.trim()} data-testid="make-thread">
          Start
        </button>
      </div>
    </form>
  );
}

function requestBody(fields: Fields, name: string, first: string): Record<string, unknown> {
  return {
    cwd: fields.cwd.trim(),
    agent: fields.agent,
    permissions: fields.permissions,
    trust: fields.trust,
    visibility: fields.visibility,
    ...(name ? { name } : {}),
    ...(first.trim() ? { prompt: first.trim() } : {}),
    ...(fields.model.trim() ? { model: fields.model.trim() } : {}),
    ...(fields.instructions.trim() ? { instructions: fields.instructions } : {}),
  };
}

export function ThreadSettings({ thread, close }: { thread: Thread; close: () => void }) {
  const [fields, setFields] = useState<Fields>({
    cwd: thread.cwd,
    agent: thread.agent,
    model: thread.model ?? "",
    permissions: thread.permissions,
    trust: thread.trust,
    visibility: thread.visibility,
    instructions: thread.instructions ?? "",
  });
  const [busy, setBusy] = useState(false);
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const saved = await changeThread(thread.id, changes(thread, fields));
    setBusy(false);
    if (saved) close();
  };
  return (
    <form data-testid="thread-form" onSubmit={(event) => void save(event)}>
      {thread.live && <p class="note warning">A run is active. You can change these settings when it has ended.</p>}
      <AgentAndPermissions fields={fields} change={setFields} />
      <FolderField value={fields.cwd} change={(cwd) => setFields({ ...fields, cwd })} />
      {fields.cwd !== thread.cwd && <p class="hint">Another directory starts a fresh session.</p>}
      <MoreSettings fields={fields} change={setFields} />
      {thread.allowed.length > 0 && <Allowed thread={thread} />}
      <div class="row end">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button class="primary" type="submit" disabled={busy || thread.live !== null} data-testid="save-settings">
          Save
        </button>
      </div>
    </form>
  );
}

const Allowed = ({ thread }: { thread: Thread }) => (
  <fieldset data-testid="allowed">
    <legend>Always allowed in this thread</legend>
    <ul>
      {thread.allowed.map((rule, index) => (
        <li key={index}>
          <code>{visible(rule.words)}</code>
          {rule.cwd !== thread.cwd && <> (only in {visible(rule.cwd)})</>}
        </li>
      ))}
    </ul>
    <button type="button" data-testid="forget-allowed" onClick={() => void changeThread(thread.id, { forget_allowed: true })}>
      Ask again from now on
    </button>
  </fieldset>
);

/** Only the values that differ, because the daemon refuses most changes while a run is active. */
function changes(thread: Thread, fields: Fields): Record<string, unknown> {
  const before: Record<string, unknown> = { ...thread, model: thread.model ?? "", instructions: thread.instructions ?? "" };
  const changed = Object.entries(fields).filter(([key, value]) => before[key] !== value);
  return Object.fromEntries(changed.filter(([key, value]) => key !== "model" || value !== "")); // an empty model is the default one
}

interface FieldsProps {
  fields: Fields;
  change: (fields: Fields) => void;
}

function AgentAndPermissions({ fields, change }: FieldsProps) {
  const agent = useStore(page, (now) => now.agents?.find((each) => each.name === fields.agent));
  return (
    <>
      <AgentFields fields={fields} change={(part) => change({ ...fields, ...part })} />
      <Radios
        legend="Permissions"
        options={permissionOptions(agent)}
        value={fields.permissions}
        change={(permissions) => change({ ...fields, permissions })}
      />
    </>
  );
}

const MoreSettings = ({ fields, change }: FieldsProps) => (
  <details class="fold more-settings">
    <summary>
      <Caret size={12} /> More settings
    </summary>
    <Radios
      legend="Visibility"
      options={VISIBILITIES}
      value={fields.visibility}
      change={(visibility) => change({ ...fields, visibility })}
    />
    <label class="option">
      <input
        type="checkbox"
        checked={fields.trust === "project"}
        onChange={(event) => change({ ...fields, trust: event.currentTarget.checked ? "project" : "user" })}
      />
      <span>
        Trust the directory
        <small>Loads its agent settings, hooks and MCP servers. They can run code.</small>
      </span>
    </label>
    <label class="field">
      Instructions
      <textarea
        rows={3}
        placeholder="text that applies to the whole thread, such as a role or a rubric"
        value={fields.instructions}
        onInput={(event) => change({ ...fields, instructions: event.currentTarget.value })}
      />
    </label>
  </details>
);

