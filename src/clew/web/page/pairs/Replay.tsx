// The dialog that gives the task of a pair, and the messages to its instructor, to a new pair with other models.

import { useState } from "preact/hooks";
import { pairCalls } from "../daemon/pairs.ts";
import type { Pair, PairReplay, PairReplayRequest, Permissions } from "../daemon/wire.ts";
import { isOver, useOperation } from "../state/operations.ts";
import { closeDialog, page } from "../state/page.ts";
import { go, type Route } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { count, dollars, plural, shownTokens, slug } from "../text/format.ts";
import { jobPermissionOptions } from "../text/labels.ts";
import { visible } from "../text/visible.ts";
import { Caret } from "../ui/icons.tsx";
import { OperationProgress } from "../ui/Progress.tsx";
import { Radios } from "../ui/Radios.tsx";
import { ModelField } from "./Form.tsx";

interface Fields {
  agent: string;
  instructorModel: string;
  workerModel: string;
  permissions: Permissions;
  rounds: string;
  name: string;
}

export function ReplayPair({ pair }: { pair: Pair }) {
  const agents = useStore(page, (now) => now.agents);
  const [fields, setFields] = useState<Fields>({
    agent: pair.agent,
    instructorModel: "",
    workerModel: "",
    permissions: "read-only",
    rounds: "",
    name: "",
  });
  const { followed, busy, start, forget } = useOperation<PairReplay>();
  const set = (part: Partial<Fields>): void => setFields({ ...fields, ...part });
  const agent = agents?.find((each) => each.name === fields.agent);
  const names = [...new Set([fields.agent, ...(agents ?? []).map((each) => each.name)])];
  const submit = (event: Event): void => {
    event.preventDefault();
    void start(pairCalls.replay(pair.id, requestBody(fields)));
  };
  if (followed) {
    const result = followed.operation.result;
    return (
      <>
        <OperationProgress followed={followed}>{result && <Result replay={result} />}</OperationProgress>
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
    <form data-testid="replay-pair-form" onSubmit={submit}>
      <p class="hint">
        A new pair gets the task of “{visible(pair.name)}” and your messages to its instructor. This one does not change.
      </p>
      <label class="field">
        Agent of both
        <select
          value={fields.agent}
          onChange={(event) => set({ agent: event.currentTarget.value, instructorModel: "", workerModel: "" })}
        >
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <div class="pair equal">
        <ModelField
          label="Model of the instructor"
          models={agent?.models ?? []}
          value={fields.instructorModel}
          change={(instructorModel) => set({ instructorModel })}
        />
        <ModelField
          label="Model of the worker"
          models={agent?.models ?? []}
          value={fields.workerModel}
          change={(workerModel) => set({ workerModel })}
        />
      </div>
      <Radios
        legend="Permissions of the worker"
        options={jobPermissionOptions(agent)}
        value={fields.permissions}
        change={(permissions) => set({ permissions })}
      />
      {fields.permissions !== "read-only" && (
        <p class="note warning">It works in the same directory: files that the first worker changed are as they are now.</p>
      )}
      <details class="fold more-settings" open={fields.name !== ""}>
        <summary>
          <Caret size={12} /> More settings
        </summary>
        <label class="field">
          Rounds
          <input
            type="number"
            min="1"
            max="10000"
            placeholder="as many as this one may have"
            data-testid="replay-rounds"
            value={fields.rounds}
            onInput={(event) => set({ rounds: event.currentTarget.value })}
          />
        </label>
        <label class="field">
          Name of the new pair
          <input
            type="text"
            placeholder="made from this pair's name"
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

function requestBody(fields: Fields): PairReplayRequest {
  const rounds = Number(fields.rounds);
  return {
    with_agent: fields.agent,
    ...(fields.permissions === "ask" ? {} : { permissions: fields.permissions }), // a worker asks nobody
    ...(fields.instructorModel.trim() ? { with_instructor_model: fields.instructorModel.trim() } : {}),
    ...(fields.workerModel.trim() ? { with_worker_model: fields.workerModel.trim() } : {}),
    ...(rounds > 0 ? { rounds } : {}),
    ...(slug(fields.name) ? { name: slug(fields.name) } : {}),
  };
}

function Result({ replay: { before, after } }: { replay: PairReplay }) {
  const open = (route: Route) => (): void => {
    closeDialog();
    go(route);
  };
  return (
    <div class="ending" data-testid="replayed">
      <p>
        <strong>{visible(after.name)}</strong>: {plural(after.rounds.length, "round")}, {after.status.replaceAll("_", " ")}.
      </p>
      <div class="table" tabIndex={0} role="region" aria-label="Both pairs">
        <table>
          <thead>
            <tr>
              <th scope="col">Pair</th>
              <th scope="col">Rounds</th>
              <th scope="col">Read</th>
              <th scope="col">Written</th>
              <th scope="col">Cost</th>
            </tr>
          </thead>
          <tbody>
            <Totals pair={before} />
            <Totals pair={after} />
          </tbody>
        </table>
      </div>
      <div class="row">
        <button type="button" data-testid="open-replay" onClick={open({ at: "pair", pair: after.id })}>
          Open the new pair
        </button>
        <button type="button" data-testid="compare-replay" onClick={open({ at: "compare", a: before.id, b: after.id })}>
          Compare both
        </button>
      </div>
    </div>
  );
}

const Totals = ({ pair }: { pair: Pair }) => (
  <tr>
    <th scope="row">{visible(pair.name)}</th>
    <td>{pair.rounds.length}</td>
    <td>{count(shownTokens(pair.usage))}</td>
    <td>{count(pair.usage.output_tokens)}</td>
    <td>{dollars(pair.cost_usd)}</td>
  </tr>
);
