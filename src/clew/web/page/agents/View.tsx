// The agents on this machine, and how they are.

import { useEffect, useState } from "preact/hooks";
import { page, refreshSurroundings } from "./sync.ts";
import { Again } from "./icons.tsx";
import { useStore } from "./store.ts";
import { ToList } from "./ThreadHead.tsx";
import { visible } from "./visible.ts";
import type { Agent } from "./wire.ts";

export function Agents() {
  const agents = useStore(page, (now) => now.agents);
  const version = useStore(page, (now) => now.settings?.version);
  const none = agents?.every((agent) => agent.problem) ?? false;
  useEffect(() => void refreshSurroundings(), []);
  return (
    <div class="view" data-testid="agents-view">
      <header class="head">
        <ToList />
        <div class="head-names">
          <h1>Agents</h1>
          <p>{version ? `Clew ${version}` : "The programs that answer"}</p>
        </div>
        {!none && (
          <div class="head-actions">
            <button class="quiet" type="button" onClick={() => void refreshSurroundings()}>
              <Again /> Look again
            </button>
          </div>
        )}
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Agents">
        <div class="column wide">
          {none ? (
            <div class="empty inside">
              <NoAgent />
            </div>
          ) : (
            <Cards agents={agents ?? []} />
          )}
        </div>
      </div>
    </div>
  );
}

const Cards = ({ agents }: { agents: readonly Agent[] }) => (
  <div class="agents">
    {agents.map((agent) => (
      <Card key={agent.name} agent={agent} />
    ))}
  </div>
);

/** What to install, in the words of `clew doctor`: the daemon's own. */
export function NoAgent() {
  const agents = useStore(page, (now) => now.agents);
  const [looking, setLooking] = useState<boolean | null>(null); // null: not yet
  const look = async (): Promise<void> => {
    setLooking(true);
    await refreshSurroundings();
    setLooking(false); // one that was found would have taken this away
  };
  return (
    <>
      <h2>No agent is ready</h2>
      <p>
        Clew talks to a coding agent that is installed on this machine, and looked for these. Install one of them, log in with its
        own command, then look again.
      </p>
      <Cards agents={agents ?? []} />
      <button class="primary" type="button" data-testid="look-again" disabled={looking === true} onClick={() => void look()}>
        <Again /> Look again
      </button>
      <p class="hint" role="status">
        {looking === false && "Clew has looked again, and found none."}
      </p>
    </>
  );
}

const CANNOT =
  "no: what it may do is settled beforehand. With Ask it can read and change nothing; with Edits it may change the thread's " +
  "directory, and its commands run in a sandbox; with All it may do everything.";

function Card({ agent }: { agent: Agent }) {
  const known = !agent.problem; // of one that is not there nothing is known
  const facts: [string, string | null][] = [
    ["version", [agent.product, agent.version].filter(Boolean).join(" ") || null],
    ["path", agent.path],
    ["found", agent.source],
    ["default model", agent.default_model],
    ["resumes", agent.resumes === null || !known ? null : agent.resumes ? "yes" : "no: every turn sends the transcript"],
    ["asks you", agent.asks === null || !known ? null : agent.asks ? "yes: permissions and questions come to this page" : CANNOT],
  ];
  return (
    <section class="card agent" data-testid="agent" aria-label={agent.name}>
      <h2>
        <span class={agent.problem ? "health ill" : "health"} aria-hidden="true" />
        {agent.name}
        <span class={agent.problem ? "chip fell" : "chip resumed"}>{agent.problem ? "not ready" : "well"}</span>
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
