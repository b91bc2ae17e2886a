// The dialog that asks another model the prompts of a thread, round by round.

import { useState } from "preact/hooks";
import { AgentFields } from "../agents/Fields.tsx";
import { branchingCalls } from "../daemon/branching.ts";
import type { Permissions, Replay, ReplayRequest, ReplayTotals, Thread } from "../daemon/wire.ts";
import { isOver, useOperation } from "../state/operations.ts";
import { closeDialog, page } from "../state/page.ts";
import { go } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { count, dollars, duration, plural, shownTokens, slug } from "../text/format.ts";
import { jobPermissionOptions } from "../text/labels.ts";
import { visible } from "../text/visible.ts";
import { Caret } from "../ui/icons.tsx";
import { OperationProgress } from "../ui/Progress.tsx";
import { Radios } from "../ui/Radios.tsx";

interface Fields {
  agent: string;
  model: string;
  permissions: Permissions;
  rounds: string;
  name: string;
}

export function ReplayThread({ thread }: { thread: Thread }) {
  const [fields, setFields] = useState<Fields>({
    agent: thread.agent,
    model: "",
    permissions: "read-only",
    rounds: "",
    name: "",
  });
  const agent = useStore(page, (now) => now.agents?.find((each) => each.name === fields.agent));
  const { followed, busy, start, forget } = useOperation<Replay>();
  const set = (part: Partial<Fields>): void => setFields({ ...fields, ...part });
  const submit = (event: Event): void => {
    event.preventDefault();
    void start(branchingCalls.replay(thread.id, requestBody(fields)));
  };
  if (followed) {
    const result = followed.operation.result;
    return (
      <>
        <OperationProgress followed={followed}>{result && <Result of={thread} replay={result} />}</OperationProgress>
        <p class="hint">You can close this: the replay goes on, and a notice says when it has ended.</p>
        <div class="row end">
          {isOver(followed) && followed.operation.status !== "done" && (
            <button type="button" onClick={() => (result && set({ name: result.name }), forget())}>
              {result ? "Continue…" : "Try again…"}
            </button>
          )}
          <button type="button" onClick={closeDialog}>
            Close
          </button>
        </div>
      </>
    );
  }
  return (
    <form data-testid="replay-form" onSubmit={submit}>
      <p class="hint">
        Asks the {plural(Math.ceil(thread.turns / 2), "prompt")} of “{visible(thread.name)}” again, one after the other, in a
        new thread. This one does not change.
      </p>
      <AgentFields fields={fields} change={set} />
      <Radios
        legend="Permissions"
        options={jobPermissionOptions(agent)}
        value={fields.permissions}
        change={(permissions) => set({ permissions })}
      />
      {fields.permissions !== "read-only" && (
        <p class="note warning">It works in the same directory: files that the first answers changed are as they are now.</p>
      )}
      <details class="fold more-settings" open={fields.name !== ""}>
        <summary>
          <Caret size={12} /> More settings
        </summary>
        <label class="field">
          Only the first prompts
          <input
            type="number"
            min="1"
            placeholder="all"
            data-testid="replay-rounds"
            value={fields.rounds}
            onInput={(event) => set({ rounds: event.currentTarget.value })}
          />
        </label>
        <label class="field">
          Name of the new thread
          <input
            type="text"
            placeholder="made from this thread's name"
            value={fields.name}
            onInput={(event) => set({ name: event.currentTarget.value })}
          />
        </label>
        <p class="hint">A replay with the name of an earlier one continues where that one stopped.</p>
      </details>
      <div class="row end">
        <button type="button" onClick={closeDialog}>
          Cancel
        </button>
        <button class="primary" type="submit" data-testid="start-replay" disabled={busy}>
          Replay
        </button>
      </div>
    </form>
  );
}

function requestBody(fields: Fields): ReplayRequest {
  const rounds = Number(fields.rounds);
  return {
    with_agent: fields.agent,
    permissions: fields.permissions,
    ...(fields.model.trim() ? { with_model: fields.model.trim() } : {}),
    ...(rounds > 0 ? { rounds } : {}),
    ...(slug(fields.name) ? { name: slug(fields.name) } : {}),
  };
}

function Result({ of, replay }: { of: Thread; replay: Replay }) {
  const open = (route: Parameters<typeof go>[0]) => (): void => {
    closeDialog();
    go(route);
  };
  return (
    <div class="ending" data-testid="replayed">
      <p>
        <strong>{visible(replay.name)}</strong>: {replay.after.answers} of {plural(replay.prompts, "prompt")} answered.
      </p>
      <div class="table" tabIndex={0} role="region" aria-label="Both threads">
        <table>
          <thead>
            <tr>
              <th scope="col">Thread</th>
              <th scope="col">Answers</th>
              <th scope="col">Read</th>
              <th scope="col">Written</th>
              <th scope="col">Cost</th>
              <th scope="col">Time</th>
            </tr>
          </thead>
          <tbody>
            <Totals name={of.name} totals={replay.before} />
            <Totals name={replay.name} totals={replay.after} />
          </tbody>
        </table>
      </div>
      <div class="row">
        <button type="button" data-testid="open-replay" onClick={open({ at: "thread", thread: replay.id })}>
          Open the new thread
        </button>
        <button type="button" data-testid="compare-replay" onClick={open({ at: "compare", a: of.id, b: replay.id })}>
          Compare both
        </button>
      </div>
    </div>
  );
}

const Totals = ({ name, totals }: { name: string; totals: ReplayTotals }) => (
  <tr>
    <th scope="row">{visible(name)}</th>
    <td>{totals.answers}</td>
    <td>{count(shownTokens(totals.usage))}</td>
    <td>{count(totals.usage.output_tokens)}</td>
    <td>{totals.cost_usd === null ? "unknown" : dollars(totals.cost_usd)}</td>
    <td>{totals.seconds === null ? "unknown" : duration(totals.seconds * 1000)}</td>
  </tr>
);
