// The savings view: how often sessions were resumed, why not, what it cost, and what transcripts would have cost.

import { useEffect, useMemo, useState } from "preact/hooks";
import { http, Problem } from "../daemon/http.ts";
import type { Stats } from "../daemon/wire.ts";
import { page } from "../state/page.ts";
import { useStore } from "../state/store.ts";
import { daemon } from "../state/sync.ts";
import { count, dollars, plural } from "../text/format.ts";
import { reasonText } from "../text/labels.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { LineChart, type Series } from "./LineChart.tsx";

const PERIODS: [string, number | undefined][] = [
  ["7 days", 7],
  ["30 days", 30],
  ["90 days", 90],
  ["all time", undefined],
];

export function SavingsView() {
  const [days, setDays] = useState<number | undefined>(30);
  const [thread, setThread] = useState("");
  const [stats, setStats] = useState<Stats | null>(null);
  const [problem, setProblem] = useState("");
  const threads = useStore(daemon, (now) => now.threads);
  const version = useStore(daemon, (now) => now.version);
  const connected = useStore(page, (now) => now.connection === "open"); // a request that failed is sent again
  useEffect(() => {
    if (!connected && stats) return undefined;
    let wanted = true;
    const timer = setTimeout(() => {
      http.stats(thread || undefined, days).then(
        (found) => wanted && (setStats(found), setProblem("")),
        (error: unknown) => wanted && setProblem(error instanceof Problem ? error.message : String(error)),
      );
    }, stats ? 500 : 0); // while runs are active, the figures change often
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [days, thread, version, connected]);
  return (
    <div class="view" data-testid="savings-view">
      <header class="head">
        <BackToList />
        <div class="head-names">
          <h1>Savings</h1>
          <p>What resuming sessions saved</p>
        </div>
        <div class="head-actions">
          <select aria-label="Thread" value={thread} onChange={(event) => setThread(event.currentTarget.value)}>
            <option value="">all threads</option>
            {threads.map((each) => (
              <option key={each.id} value={each.id}>
                {each.name}
              </option>
            ))}
          </select>
          <select
            aria-label="Period"
            value={String(days ?? "")}
            onChange={(event) => setDays(event.currentTarget.value ? Number(event.currentTarget.value) : undefined)}
          >
            {PERIODS.map(([label, value]) => (
              <option key={label} value={String(value ?? "")}>
                {label}
              </option>
            ))}
          </select>
        </div>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Figures">
        <div class="column wide">
          {problem && <p class="note warning">{problem}</p>}
          {stats && stats.runs === 0 && (
            <div class="empty inside">
              <h2>No runs yet</h2>
              <p>Ask something in a thread: from its second turn on, this page shows what resuming its session saved.</p>
            </div>
          )}
          {stats && stats.runs > 0 && <Figures stats={stats} />}
        </div>
      </div>
    </div>
  );
}

function Figures({ stats }: { stats: Stats }) {
  const turns = useMemo(() => byTurn(stats), [stats]);
  const costs = useMemo(() => byDay(stats), [stats]);
  const decided = stats.resumed + Object.values(stats.fresh).reduce((sum, n) => sum + n, 0);
  const rate = stats.resumed / Math.max(1, decided);
  return (
    <>
      <dl class="tiles">
        <Saved stats={stats} />
        <Tile name="resumed" value={`${Math.round(rate * 100)} %`} note={resumedOf(stats, decided)} />
        <Cost stats={stats} />
        <Tile
          name="written"
          value={count(stats.usage.output_tokens)}
          note={`tokens; ${stats.fallbacks ? plural(stats.fallbacks, "fallback") : "no fallbacks"}`}
        />
      </dl>
      <div class="charts">
        <LineChart title="New tokens by turn, not from the cache" x={turns.x} series={turns.series} format={count} />
        <Reasons stats={stats} />
        {isPriced(stats) && <LineChart title="Cost over time" x={costs.x} days series={costs.series} format={dollars} />}
      </div>
      <p class="hint">
        The cost with transcripts is an estimate: the same turn in a fresh session, with the whole conversation before it in the
        prompt. The cost with a plain --resume is an estimate too: the agent's own session is continued every turn, even after
        edits or expiry. New tokens are those that the model reads for the first time, at the full price. Turns that were made
        outside Clew are not counted.
        {withoutEstimate(stats) > 0 &&
          ` Of ${plural(withoutEstimate(stats), "run")} without an estimate, the actual cost is counted.`}
      </p>
    </>
  );
}

const resumedOf = ({ resumed, rewound }: Stats, decided: number): string =>
  `${resumed} of ${plural(decided, "run")}${rewound > 0 ? `; ${rewound} rewound` : ""}`;

/** A run without a reported price costs money as well: unknown is not zero. */
const isPriced = (stats: Stats): boolean => stats.cost_usd > 0;

const withoutEstimate = (stats: Stats): number => stats.runs - Math.min(stats.estimated_runs, stats.plain_resume_runs);

function Saved({ stats }: { stats: Stats }) {
  if (stats.saved_share === null || stats.transcript_usd === 0) {
    return <Tile name="saved" value="–" note={isPriced(stats) || !stats.unpriced_runs ? "no estimate yet" : "no price reported"} />;
  }
  const percent = Math.round(Math.abs(stats.saved_share) * 100);
  if (stats.saved_usd < 0) {
    return <Tile name="spent more" value={dollars(-stats.saved_usd)} note={`≈ ${percent} % more than with transcripts`} />;
  }
  return <Tile name="saved" value={dollars(stats.saved_usd)} note={`≈ ${percent} % of what transcripts would cost`} accent={percent > 0} />;
}

function Cost({ stats }: { stats: Stats }) {
  const unpriced = stats.unpriced_runs;
  if (!isPriced(stats)) {
    return <Tile name="cost" value={unpriced ? "unknown" : "$0"} note={unpriced ? "no price reported" : "no model was called"} />;
  }
  const note = `≈ ${dollars(stats.transcript_usd)} with transcripts, ≈ ${dollars(stats.plain_resume_usd)} with a plain --resume every turn`;
  return <Tile name="cost" value={dollars(stats.cost_usd)} note={unpriced ? `${note}; ${plural(unpriced, "run")} without a price` : note} />;
}

const Tile = ({ name, value, note, accent }: { name: string; value: string; note: string; accent?: boolean }) => (
  <div class={accent ? "tile accent" : "tile"}>
    <dt>{name}</dt>
    <dd>
      <strong>{value}</strong>
      <small>{note}</small>
    </dd>
  </div>
);

interface Curves {
  x: number[];
  series: Series[];
}

function byTurn(stats: Stats): Curves {
  const rows = stats.by_turn.filter((row) => row.shown_tokens > 0); // without runs that never reached the model
  return {
    x: rows.map((_, index) => index + 1),
    series: [
      { label: "actual", colour: "--green", fill: true, values: rows.map((row) => row.new_tokens) },
      { label: "with transcripts (estimate)", colour: "--amber", dashed: true, values: rows.map((row) => row.transcript_new_tokens) },
    ],
  };
}

/** Running totals: what was paid up to each day, and what would have been paid. */
function byDay(stats: Stats): Curves {
  let paid = 0;
  let transcript = 0;
  let plain = 0;
  const paidBy = stats.by_day.map((day) => (paid += day.cost_usd));
  const transcriptBy = stats.by_day.map((day) => (transcript += day.transcript_usd));
  const plainBy = stats.by_day.map((day) => (plain += day.plain_resume_usd));
  return {
    x: stats.by_day.map((day) => Date.parse(`${day.day}T00:00:00Z`) / 1000),
    series: [
      { label: "paid", colour: "--green", fill: true, values: paidBy },
      { label: "with transcripts (estimate)", colour: "--amber", dashed: true, values: transcriptBy },
      { label: "with a plain --resume (estimate)", colour: "--muted", dashed: true, values: plainBy },
    ],
  };
}

function Reasons({ stats }: { stats: Stats }) {
  const fresh = Object.entries(stats.fresh).sort(([, a], [, b]) => b - a);
  const decided = fresh.reduce((sum, [, n]) => sum + n, stats.resumed);
  const highest = Math.max(stats.resumed, ...fresh.map(([, n]) => n), 1);
  const bars: [string, number, string][] = [
    ["resumed", stats.resumed - stats.rewound, "good"],
    ...(stats.rewound > 0 ? [["resumed, rewound to an earlier turn", stats.rewound, "good"] as [string, number, string]] : []),
    ...fresh.map(([reason, n]): [string, number, string] => [`fresh: ${reasonText(reason)}`, n, "warning"]),
  ];
  return (
    <figure class="chart">
      <figcaption>
        <h2>Resumed, or fresh and why</h2>
      </figcaption>
      <ul class="bars">
        {bars.map(([label, n, kind]) => (
          <li key={label}>
            <span class="bar-label">{label}</span>
            <span class="bar-track" aria-hidden="true">
              <span class={`bar ${kind}`} style={{ width: `${(100 * n) / highest}%` }} />
            </span>
            <span class="bar-count">
              {n} <small>{Math.round((100 * n) / Math.max(1, decided))} %</small>
            </span>
          </li>
        ))}
      </ul>
    </figure>
  );
}
