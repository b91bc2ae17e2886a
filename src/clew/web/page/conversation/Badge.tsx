// The badge under an answer: resumed (and up to where), or fresh and why; tokens read and written; the cost, and the
// estimate without resume.

import type { RunSummary } from "../daemon/wire.ts";
import { count, dollars, duration, durationMs, shownTokens } from "../text/format.ts";
import { reasonText, resumedText } from "../text/labels.ts";
import { OutsideChip } from "./Outside.tsx";

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
      {run.outside ? (
        <OutsideChip />
      ) : (
        <SessionChip
          resumed={run.session_resumed}
          reason={run.reason}
          rewoundTo={run.rewound_to}
          turn={run.rewound_to_turn_id}
          fallback={run.fallback}
        />
      )}
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
  rewoundTo?: number | null; // the number of a turn
  turn?: string | null; // its id
  fallback: boolean;
}

export function SessionChip({ resumed, reason, rewoundTo = null, turn = null, fallback }: SessionChipProps) {
  if (resumed === null && !reason) return null;
  const text = resumed ? resumedText(reason, rewoundTo) : `fresh: ${reasonText(reason)}`;
  return (
    <>
      {turn === null ? (
        <span class={resumed ? "chip good" : "chip warning"}>{text}</span>
      ) : (
        <button class="chip good" type="button" title={`Shows turn ${rewoundTo}`} onClick={() => jumpTo(turn)}>
          {text}
        </button>
      )}
      {fallback && (
        <span class="chip bad" title="The first attempt failed in a way that a fresh session fixes, so a second attempt followed">
          fell back
        </span>
      )}
    </>
  );
}

/** Scrolls to a turn, if it is loaded. */
const jumpTo = (turn: string): void =>
  document.querySelector(`[data-turn="${CSS.escape(turn)}"]`)?.scrollIntoView({ block: "start" });
