// What stands in a box to write in: who is to answer, and a field that grows with its words.

import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";
import type { Agent } from "./wire.ts";

/** As high as what is written, up to a part of the window. */
export function useGrowing(area: RefObject<HTMLTextAreaElement | null>, text: string): void {
  useLayoutEffect(() => {
    const field = area.current;
    if (!field) return;
    const frame = field.parentElement;
    if (frame) frame.style.height = `${frame.offsetHeight}px`; // what is above it must not move while it is measured
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, window.innerHeight * 0.4)}px`;
    if (frame) frame.style.height = "";
  }, [text]);
}

interface AgentPicking {
  agents: readonly Agent[] | null;
  agent: string;
  choose: (name: string) => void;
}

export function AgentPicker({ agents, agent, choose }: AgentPicking) {
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
            {problem ? `${name} (not well)` : name}
          </option>
        );
      })}
    </select>
  );
}

/** Free text with suggestions: a new model must not wait for a new Clew. */
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
          else event.currentTarget.value = model; // there is no default to go back to
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
