// The fields of a form that choose the agent and its model, with what is wrong with that agent.

import { useId } from "preact/hooks";
import { page } from "../state/page.ts";
import { useStore } from "../state/store.ts";

interface Props {
  fields: { agent: string; model: string };
  change: (part: { agent?: string; model?: string }) => void;
}

export function AgentFields({ fields, change }: Props) {
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
