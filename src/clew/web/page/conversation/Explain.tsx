// What the next prompt would do: whether it resumes the session and why, the expected price, and the exact text that the
// agent would be sent. Nothing is run or stored.

import { useEffect, useState } from "preact/hooks";
import { http } from "../daemon/http.ts";
import type { Explanation, Forecast } from "../daemon/wire.ts";
import { attempt, closeDialog } from "../state/page.ts";
import { count, dollars, plural } from "../text/format.ts";
import { reasonText } from "../text/labels.ts";
import { visible } from "../text/visible.ts";
import { Output } from "../ui/Output.tsx";

/** `ask`: the body of the request that would ask; its prompt may be empty. */
export function Explain({ thread, ask }: { thread: string; ask: Record<string, unknown> }) {
  const [told, setTold] = useState<Explanation | null>(null);
  useEffect(() => {
    void attempt<Explanation>(http.explain(thread, ask)).then(setTold);
  }, []);
  return (
    <>
      {told ? <Told told={told} /> : <p aria-busy="true">Asking…</p>}
      <div class="row end">
        <button type="button" autoFocus onClick={closeDialog}>
          Close
        </button>
      </div>
    </>
  );
}

function Told({ told }: { told: Explanation }) {
  return (
    <div data-testid="explanation">
      <p>
        <span class={told.resumes ? "chip good" : "chip warning"} data-testid="explained-decision">
          {told.resumes ? resumes(told) : `fresh: ${reasonText(told.reason)}`}
        </span>{" "}
        {visible(told.words)}
      </p>
      {told.outside_turns > 0 && (
        <p class="note plain">
          {plural(told.outside_turns, "turn")} made outside Clew {told.outside_turns === 1 ? "comes" : "come"} into the thread first.
        </p>
      )}
      {told.waits_for && <p class="note plain">The thread is in use: this would wait, and be decided again then.</p>}
      {told.unfinished && <p class="note warning">A run that a crash left unfinished is ended first.</p>}
      <dl class="facts explained">
        {factsOf(told).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {told.prompt === null ? (
        <p class="hint">Write a prompt to see the exact text that the agent would be sent.</p>
      ) : (
        <>
          <h3>The exact prompt ({plural(told.prompt_chars, "character")})</h3>
          <Output label="The exact prompt" text={told.prompt} />
        </>
      )}
    </div>
  );
}

const resumes = ({ reason, rewound_to }: Explanation): string =>
  rewound_to === null ? "resumes" : `rewinds to turn ${rewound_to}: ${reasonText(reason)}`;

function factsOf(told: Explanation): [string, string][] {
  const facts: [string, string | null][] = [
    ["agent", [told.agent, told.model].filter(Boolean).join(" · ")],
    ["session", told.session_id && `${told.session_id}${told.copies ? " (in a copy)" : ""}`],
    ["turns sent", told.turns_sent > 0 ? sentTurns(told) : null],
    ["instructions", told.standing],
    ["images", told.images.length > 0 ? `${told.images.length}, not in the estimates` : null],
    ["rules", told.rules.map(visible).join(", ")],
    ["session holds", told.held_tokens === null ? null : `${told.held_is_measured ? "" : "about "}${count(told.held_tokens)} tokens${told.is_cached ? ", expected in the cache" : ""}`],
    ["expected", price(told.expected)],
    ["with transcript", told.with_transcript && price(told.with_transcript)],
  ];
  return facts.filter((fact): fact is [string, string] => Boolean(fact[1]));
}

const sentTurns = ({ turns_sent, turns_left_out }: Explanation): string =>
  `${turns_sent}${turns_left_out > 0 ? `; ${turns_left_out} did not fit` : ""}`;

const price = ({ cached_tokens, new_tokens, cost_usd }: Forecast): string =>
  [
    cost_usd === null ? "no price known" : `about ${dollars(cost_usd)}`,
    `${count(cached_tokens)} tokens from the cache, ${count(new_tokens)} new, without the answer`,
  ].join(": ");
