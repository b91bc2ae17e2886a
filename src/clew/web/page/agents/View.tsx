// The agents view: which agents are installed on this machine, and what is wrong with them.

import { useEffect, useState } from "preact/hooks";
import type { Agent } from "../daemon/wire.ts";
import { noAgentReady, page } from "../state/page.ts";
import { useStore } from "../state/store.ts";
import { refreshSettings } from "../state/sync.ts";
import { visible } from "../text/visible.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { Again } from "../ui/icons.tsx";

export function AgentsView() {
  const agents = useStore(page, (now) => now.agents);
  const version = useStore(page, (now) => now.settings?.version);
  const noAgent = useStore(page, noAgentReady);
  useEffect(() => void refreshSettings(), []);
  return (
    <div class="view" data-testid="agents-view">
      <header class="head">
        <BackToList />
        <div class="head-names">
          <h1>Agents</h1>
          <p>{version ? `Clew ${version}` : "Coding agents on this machine"}</p>
        </div>
        {!noAgent && (
          <div class="head-actions">
            <button class="quiet" type="button" onClick={() => void refreshSettings()}>
              <Again /> Check again
            </button>
          </div>
        )}
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Agents">
        <div class="column wide">
          {noAgent ? (
            <div class="empty inside">
              <NoAgent />
            </div>
          ) : (
            <AgentCards agents={agents ?? []} />
          )}
        </div>
      </div>
    </div>
  );
}

const AgentCards = ({ agents }: { agents: readonly Agent[] }) => (
  <div class="agents">
    {agents.map((agent) => (
      <AgentCard key={agent.name} agent={agent} />
    ))}
  </div>
);

/** What to install. The daemon's hints are those of `clew doctor`. */
export function NoAgent() {
  const agents = useStore(page, (now) => now.agents);
  const [checking, setChecking] = useState<boolean | null>(null); // null: not checked again yet
  const check = async (): Promise<void> => {
    setChecking(true);
    await refreshSettings();
    setChecking(false); // when an agent was found, this is no longer shown
  };
  return (
    <>
      <h2>No agent is ready</h2>
      <p>
        Clew uses a coding agent that is installed on this machine, and it looked for those below. Install one of them, log in
        with its own command, then check again.
      </p>
      <AgentCards agents={agents ?? []} />
      <button class="primary" type="button" data-testid="check-again" disabled={checking === true} onClick={() => void check()}>
        <Again /> Check again
      </button>
      <p class="hint" role="status">
        {checking === false && "Clew checked again and found no agent."}
      </p>
    </>
  );
}

const ASKS = "yes: permissions and questions come to this page";
const CANNOT_ASK =
  "no: what it may do is set before the run. With Ask it can read, but not change anything; with Edits it may change the " +
  "thread's directory, and its commands run in a sandbox; with All it may do everything.";

function AgentCard({ agent }: { agent: Agent }) {
  const known = !agent.problem; // nothing is known about an agent that is not installed
  const facts: [string, string | null][] = [
    ["version", [agent.product, agent.version].filter(Boolean).join(" ") || null],
    ["path", agent.path],
    ["found in", agent.source],
    ["default model", agent.default_model],
    ["resumes", !known ? null : agent.resumes ? "yes" : "no: every turn sends the transcript"],
    ["asks you", !known ? null : agent.asks ? ASKS : CANNOT_ASK],
  ];
  return (
    <section class="card agent" data-testid="agent" aria-label={agent.name}>
      <h2>
        <span class={agent.problem ? "health bad" : "health"} aria-hidden="true" />
        {agent.name}
        <span class={agent.problem ? "chip bad" : "chip good"}>{agent.problem ? "not ready" : "ready"}</span>
      </h2>
      {agent.problem && (
        <p class="note warning">
          {visible(agent.problem)}
          {agent.hint && <br />}
          {agent.hint && visible(agent.hint)}
        </p>
      )}
      <dl class="facts">
        {facts
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </section>
  );
}
