// One pair: its task, its rounds as they happen, and what a person can do: stop, resume,
// rename, fork, replay, compare and merge it.

import { useState } from "preact/hooks";
import type { Pair } from "../daemon/wire.ts";
import { page, type PairDialog } from "../state/page.ts";
import { openPair, pairs, pairTitle, renamePair, stopPair } from "../state/pairs.ts";
import { go, hashOf } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { dateTime, dollars, plural, shortPath, slug } from "../text/format.ts";
import { visible } from "../text/visible.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { focusOnMount } from "../ui/focus.ts";
import { Back, Caret, More, Pencil, Stop, Warning } from "../ui/icons.tsx";
import { LoadError } from "../ui/LoadError.tsx";
import { Menu } from "../ui/Menu.tsx";
import { PairChip } from "./List.tsx";
import { ResumePair } from "./Resume.tsx";
import { CurrentRun, Round } from "./Rounds.tsx";

export function PairView() {
  const { open: pair, missing, error } = useStore(pairs, (now) => now);
  const id = useStore(page, (now) => (now.route.at === "pair" ? now.route.pair : ""));
  if (missing) {
    return (
      <div class="empty" data-testid="pair-missing">
        <h1>Pair not found</h1>
        <p>
          It was archived or renamed, or the address belongs to another Clew. <a href={hashOf({ at: "pairs" })}>All pairs</a>
        </p>
      </div>
    );
  }
  if (!pair) {
    return (
      <div class="empty" aria-busy={!error}>
        {error && <LoadError problem={error} retry={() => openPair(id)} />}
      </div>
    );
  }
  return <LoadedPair key={pair.id} pair={pair} />;
}

function LoadedPair({ pair }: { pair: Pair }) {
  const progress = useStore(pairs, (now) => now.progress);
  const isRunning = pair.status === "running";
  return (
    <div class="view" data-testid="pair-view">
      <Header pair={pair} />
      <div class="scroll" tabIndex={0} role="region" aria-label="Pair">
        <div class="column">
          <PairError pair={pair} />
          <section class="card job-card" aria-label="Task">
            <h2>Task</h2>
            <div class="markdown plain">{visible(pair.task)}</div>
          </section>
          <Facts pair={pair} />
          {progress.warnings.map((warning) => (
            <p key={warning} class="note warning">
              {visible(warning)}
            </p>
          ))}
          <div role="log" aria-label="Rounds" aria-live="polite" aria-relevant="additions">
            {pair.rounds.map((round) => (
              <Round key={round.round} pair={pair} round={round} />
            ))}
          </div>
          {isRunning && <CurrentRun pair={pair} progress={progress} />}
          {!isRunning && <ResumePair pair={pair} />}
        </div>
      </div>
    </div>
  );
}

const ACTIONS: { is: PairDialog; label: string }[] = [
  { is: "replay_pair", label: "Replay…" },
  { is: "compare_pair", label: "Compare…" },
  { is: "merge_pairs", label: "Merge…" },
];

function Header({ pair }: { pair: Pair }) {
  const home = useStore(page, (now) => now.settings?.home);
  const [isRenaming, setIsRenaming] = useState(false);
  const [isAsked, setIsAsked] = useState(false);
  const isStopping = isAsked || pair.stop_requested;
  const stop = async (): Promise<void> => {
    setIsAsked(true);
    await stopPair(pair.id);
    setIsAsked(false);
  };
  const isRunning = pair.status === "running";
  return (
    <header class="head">
      <BackToList />
      <button class="quiet" type="button" aria-label="All pairs" title="All pairs" onClick={() => go({ at: "pairs" })}>
        <Back />
      </button>
      {isRenaming ? (
        <Rename pair={pair} close={() => setIsRenaming(false)} />
      ) : (
        <div class="head-names">
          <h1 title={visible(pairTitle(pair))} data-testid="pair-name-shown">
            {visible(pair.name)}
          </h1>
          <p>
            <PairState pair={pair} />
            <span class="path" title={visible(pair.cwd)}>
              {visible(shortPath(pair.cwd, home))}
            </span>
            {pair.cost_usd > 0 && <span class="wide">{dollars(pair.cost_usd)}</span>}
          </p>
        </div>
      )}
      <div class="head-actions">
        {!isRunning && !isRenaming && (
          <button
            class="quiet"
            type="button"
            aria-label="Rename"
            title="Rename"
            data-testid="rename-pair"
            onClick={() => setIsRenaming(true)}
          >
            <Pencil />
          </button>
        )}
        {isRunning && (
          <button class="danger" type="button" data-testid="stop-pair" disabled={isStopping} onClick={() => void stop()}>
            <Stop size={13} /> {isStopping ? "Stopping…" : "Stop"}
          </button>
        )}
        {!isRenaming && (
          <Menu
            label="More actions"
            testid="pair-menu"
            items={ACTIONS.map(({ is, label }) => ({
              label,
              testid: `menu-${is}`,
              act: () => page.patch({ dialog: { is, pair: pair.id } }),
            }))}
          >
            <More />
          </Menu>
        )}
      </div>
    </header>
  );
}

const PairState = ({ pair }: { pair: Pair }) => (
  <>
    <PairChip status={pair.status} />
    <span data-testid="pair-round">
      round {pair.round} of {pair.round + pair.rounds_left - (pair.phase === "done" ? 0 : 1)}
    </span>
  </>
);

function Rename({ pair, close }: { pair: Pair; close: () => void }) {
  const [name, setName] = useState(pair.name);
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (slug(name) && (await renamePair(pair.id, slug(name)))) close();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  };
  return (
    <form class="head-names row" onSubmit={(event) => void save(event)} onKeyDown={onKeyDown}>
      <h1 class="hidden">{visible(pair.name)}</h1>
      <input
        class="grow rename"
        type="text"
        aria-label="Name of the pair"
        data-testid="rename-pair-field"
        ref={focusOnMount}
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
      />
      <button class="primary" type="submit" disabled={!slug(name)}>
        Rename
      </button>
      <button type="button" onClick={close}>
        Cancel
      </button>
    </form>
  );
}

function PairError({ pair }: { pair: Pair }) {
  if (!pair.error || pair.status === "running") return null;
  return (
    <div class="ending problem" role="group" aria-label="What is wrong" data-testid="pair-error">
      <p>
        <Warning /> <strong>{visible(pair.error.message)}</strong>
      </p>
      {pair.error.hint && <p>{visible(pair.error.hint)}</p>}
    </div>
  );
}

function Facts({ pair }: { pair: Pair }) {
  const rows: [string, string | null][] = [
    ["agent", [pair.agent, pair.permissions].join(" · ")],
    ["instructor", pair.instructor_model ?? "the agent's default model"],
    ["worker", pair.worker_model ?? "the agent's default model"],
    ["thinking", pair.thinking ? "yes" : "no"],
    ["rounds", `${plural(pair.rounds_left, "round")} left`],
    ["imported from", pair.imported_from],
    ["imported", pair.imported_round === null ? null : `in round ${pair.imported_round}`],
    ["state file", pair.file],
    ["started", dateTime(pair.created_at)],
  ];
  return (
    <details class="fold job-facts">
      <summary>
        <Caret size={12} /> About this pair
      </summary>
      <dl class="facts">
        {rows
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{visible(value ?? "")}</dd>
            </div>
          ))}
        <div>
          <dt>threads</dt>
          <dd>
            <a href={hashOf({ at: "thread", thread: pair.threads.instructor })}>instructor</a> ·{" "}
            <a href={hashOf({ at: "thread", thread: pair.threads.worker })}>worker</a>
          </dd>
        </div>
      </dl>
    </details>
  );
}
