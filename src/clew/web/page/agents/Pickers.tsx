// The pickers of agent and model in a composer.

import type { Agent } from "../daemon/wire.ts";

interface AgentPickerProps {
  agents: readonly Agent[] | null;
  agent: string;
  choose: (name: string) => void;
}

export function AgentPicker({ agents, agent, choose }: AgentPickerProps) {
  const names = new Set([agent, ...(agents ?? []).map((each) => each.name)]);
  return (
    <select
      class="pick"
      aria-label="Agent"
      data-testid="agent-picker"
      value={agent}
      onChange={(event) => choose(event.currentTarget.value)}
    >
      {[...names].map((name) => {
        const problem = agents?.find((each) => each.name === name)?.problem;
        return (
          <option key={name} value={name}>
            {problem ? `${name} (not ready)` : name}
          </option>
        );
      })}
    </select>
  );
}

/** Free text with suggestions, so that a new model can be used before Clew knows it. */
export function ModelPicker({ agent, model, choose }: { agent: Agent | null; model: string; choose: (model: string) => void }) {
  const listId = `models-${agent?.name ?? "none"}`;
  return (
    <>
      <input
        class="pick model"
        type="text"
        list={listId}
        aria-label="Model"
        data-testid="model-picker"
        spellcheck={false}
        autocomplete="off"
        size={Math.max(8, Math.min(24, (model || agent?.default_model || "default model").length))}
        placeholder={agent?.default_model ?? "default model"}
        value={model}
        onChange={(event) => {
          const chosen = event.currentTarget.value.trim() || agent?.default_model;
          if (chosen) choose(chosen);
          else event.currentTarget.value = model; // there is no default model
        }}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          event.preventDefault();
          event.currentTarget.blur();
        }}
      />
      <datalist id={listId}>
        {(agent?.models ?? []).map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  );
}
