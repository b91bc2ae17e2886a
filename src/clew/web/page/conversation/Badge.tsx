// How a turn was answered: resumed, or fresh and why; what the model was shown and wrote; what it cost and would have.

import type { RunNote } from "./wire.ts";
import { count, dollars, duration, reasonWords, shown, tookMs } from "./words.ts";

export function Badge({ run, agent, model }: { run: RunNote; agent: string | null; model: string | null }) {
  const read = shown(run.usage);
  const took = tookMs(run);
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
  else if (read > 0 && run.status === "answered") facts.push({ text: "no price reported", title: "The agent does not say what this turn cost" });
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

interface Chip {
  resumed: boolean | null;
  reason: string | null;
  fallback: boolean;
}

export function SessionChip({ resumed, reason, fallback }: Chip) {
  if (resumed === null && !reason) return null;
  return (
    <>
      <span class={resumed ? "chip resumed" : "chip fresh"}>
        {resumed ? "resumed" : `fresh: ${reasonWords(reason)}`}
      </span>
      {fallback && (
        <span class="chip fell" title="The first attempt failed in a way that a fresh session mends; a second one followed">
          fell back
        </span>
      )}
    </>
  );
}
