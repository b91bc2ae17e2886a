// The form of a new thread and the settings of one that is there: the same fields.

import { useEffect, useId, useState } from "preact/hooks";
import { ask, changeThread, makeThread, refillComposer } from "./actions.ts";
import { page } from "./sync.ts";
import { FolderField } from "./FolderField.tsx";
import { Caret } from "./icons.tsx";
import { lastFolder } from "./keep.ts";
import { focused } from "./near.ts";
import { useStore } from "./store.ts";
import type { Permissions, Settings, Thread, Visibility } from "./wire.ts";
import { asName, permissionWords, VISIBILITIES } from "./words.ts";

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
  if (!fields) return <p>One moment…</p>;
  const make = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const made = await makeThread(body(fields, asName(name), first));
    setBusy(false);
    if (!made) return;
    if (first.trim() && !(await ask(made.id, first.trim()))) refillComposer(made.id, first);
    lastFolder.set(made.cwd);
    close();
  };
  return (
    <form data-testid="thread-form" onSubmit={(event) => void make(event)}>
      <label class="field">
        First message
        <textarea
          rows={3}
          autoFocus
          ref={focused}
          placeholder="what to do; may wait"
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
          placeholder={asName(first.trim().split(/\s+/).slice(0, 5).join(" ")).toLowerCase() || "after the first words"}
          data-testid="thread-name-field"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <Choices fields={fields} change={setFields} />
      <Further fields={fields} change={setFields} />
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

function body(fields: Fields, name: string, first: string): Record<string, unknown> {
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
      {thread.live && <p class="note warning">A run is going on: these can be changed when it is over.</p>}
      <Choices fields={fields} change={setFields} />
      <FolderField value={fields.cwd} change={(cwd) => setFields({ ...fields, cwd })} />
      {fields.cwd !== thread.cwd && <p class="hint">Another directory starts a fresh session.</p>}
      <Further fields={fields} change={setFields} />
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

/** Only what is another value than before: the daemon refuses most changes while a run goes on. */
function changes(thread: Thread, fields: Fields): Record<string, unknown> {
  const before: Record<string, unknown> = { ...thread, model: thread.model ?? "", instructions: thread.instructions ?? "" };
  const changed = Object.entries(fields).filter(([key, value]) => before[key] !== value);
  return Object.fromEntries(changed.filter(([key, value]) => key !== "model" || value !== "")); // empty: the default
}

interface Choosing {
  fields: Fields;
  change: (fields: Fields) => void;
}

interface AgentChoice {
  fields: { agent: string; model: string };
  change: (part: { agent?: string; model?: string }) => void;
}

/** Who works, and with which model; with what is wrong with that agent. */
export function AgentFields({ fields, change }: AgentChoice) {
  const agents = useStore(page, (now) => now.agents);
  const id = useId();
  const names = [...new Set([fields.agent, ...(agents ?? []).map((agent) => agent.name)])];
  const agent = agents?.find((each) => each.name === fields.agent);
  return (
    <>
      <div class="pair">
        <label class="field">
          Agent
          <select
            data-testid="form-agent"
            value={fields.agent}
            onChange={(event) => change({ agent: event.currentTarget.value, model: "" })}
          >
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label class="field">
          Model
          <input
            type="text"
            list={id}
            spellcheck={false}
            autocomplete="off"
            placeholder={agent?.default_model ?? "the agent's default"}
            value={fields.model}
            onInput={(event) => change({ model: event.currentTarget.value })}
          />
        </label>
        <datalist id={id}>
          {(agent?.models ?? []).map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      </div>
      {agent?.problem && (
        <p class="note warning">
          {agent.problem} {agent.hint}
        </p>
      )}
    </>
  );
}

function Choices({ fields, change }: Choosing) {
  const agent = useStore(page, (now) => now.agents?.find((each) => each.name === fields.agent));
  return (
    <>
      <AgentFields fields={fields} change={(part) => change({ ...fields, ...part })} />
      <Radios
        legend="Permissions"
        options={permissionWords(agent)}
        value={fields.permissions}
        change={(permissions) => change({ ...fields, permissions })}
      />
    </>
  );
}

const Further = ({ fields, change }: Choosing) => (
  <details class="fold further">
    <summary>
      <Caret size={12} /> Further settings
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
        <small>Its rules (CLAUDE.md, AGENTS.md), agent settings, hooks and MCP servers load. They can run code.</small>
      </span>
    </label>
    <label class="field">
      Instructions
      <textarea
        rows={3}
        placeholder="text that holds for the whole thread: a role, a rubric, a memory"
        value={fields.instructions}
        onInput={(event) => change({ ...fields, instructions: event.currentTarget.value })}
      />
    </label>
  </details>
);

interface RadioSet<V extends string> {
  legend: string;
  options: readonly { value: V; label: string; means: string }[];
  value: V;
  change: (value: V) => void;
}

export function Radios<V extends string>({ legend, options, value, change }: RadioSet<V>) {
  const name = useId();
  return (
    <fieldset>
      <legend>{legend}</legend>
      <div class="options">
        {options.map((option) => (
          <label key={option.value} class="option">
            <input
              type="radio"
              name={name}
              value={option.value}
              checked={option.value === value}
              onChange={() => change(option.value)}
            />
            <span>
              {option.label}
              <small>{option.means}</small>
            </span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
