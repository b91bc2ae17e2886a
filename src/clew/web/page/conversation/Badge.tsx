// The badge under an answer: resumed, or fresh and why; tokens read and written; the cost, and the estimate without resume.

import type { RunSummary } from "../daemon/wire.ts";
import { count, dollars, duration, durationMs, shownTokens } from "../text/format.ts";
import { reasonText } from "../text/labels.ts";

export function Badge({ run, agent, model }: { run: RunSummary; agent: string | null; model: string | null }) {
  const read = shownTokens(run.usage);
  const took = durationMs(run);
  const facts: { text: string; title: string }[] = [];
  if (agent) facts.push({ text: model ? `${agent} · ${model}` : agent, title: "The agent and the model that answered" });
  if (read > 0) {
    const cached = run.usage.cache_read_input_tokens;
    facts.push({
      text: `${count(read)} read${cached > 0 ? `, ${count(cached)} cached` : ""}`,
      title: `${read.toLocaleString("en")} tokens were shown to the model, ${cached.toLocaleString("en")} of them from its cache`,
    });
    facts.push({
      text: `${count(run.usage.output_tokens)} written`,
      title: `${run.usage.output_tokens.toLocaleString("en")} tokens were written by the model`,
    });
  }
  if (run.cost_usd) facts.push({ text: dollars(run.cost_usd), title: "What this turn cost, as the agent reports it" });
  else if (read > 0 && run.status === "answered") {
    facts.push({ text: "no price reported", title: "The agent does not report what this turn cost" });
  }
  if (run.session_resumed && run.estimate_usd) {
    facts.push({
      text: `transcript ≈ ${dollars(run.estimate_usd)}`,
      title: "An estimate of what the turn would have cost with the whole transcript in a fresh session",
    });
  }
  if (took !== null) facts.push({ text: duration(took), title: "How long it took" });
  return (
    <p class="badge" data-testid="badge">
      <SessionChip resumed={run.session_resumed} reason={run.reason} fallback={run.fallback} />
      {facts.map((fact) => (
        <span key={fact.title} title={fact.title}>
          {fact.text}
        </span>
      ))}
    </p>
  );
}

interface SessionChipProps {
  resumed: boolean | null;
  reason: string | null;
  fallback: boolean;
}

export function SessionChip({ resumed, reason, fallback }: SessionChipProps) {
  if (resumed === null && !reason) return null;
  return (
    <>
      <span class={resumed ? "chip good" : "chip warning"}>
        {resumed ? "resumed" : `fresh: ${reasonText(reason)}`}
      </span>
      {fallback && (
        <span class="chip bad" title="The first attempt failed in a way that a fresh session fixes, so a second attempt followed">
          fell back
        </span>
      )}
    </>
  );
}
