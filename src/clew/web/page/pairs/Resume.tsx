// How a stopped pair continues: with a message to the instructor, and more rounds.

import { useState } from "preact/hooks";
import type { Pair } from "../daemon/wire.ts";
import { resumePair } from "../state/pairs.ts";
import { Again } from "../ui/icons.tsx";

export function ResumePair({ pair }: { pair: Pair }) {
  const [message, setMessage] = useState("");
  const [rounds, setRounds] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const more = Number(rounds);
    await resumePair(pair.id, {
      ...(message.trim() ? { message: message.trim(), expand: true } : {}),
      ...(more > 0 ? { rounds: more } : {}),
    });
    setBusy(false);
  };
  const isFinished = pair.status === "finished";
  return (
    <form class="card job-card" data-testid="resume-form" aria-label="Resume" onSubmit={(event) => void submit(event)}>
      <h2>{isFinished ? "The task is done" : "Resume"}</h2>
      <label class="field">
        Message to the instructor
        <textarea
          rows={2}
          data-testid="resume-message"
          placeholder={isFinished ? "what is still to do" : "optional"}
          value={message}
          onInput={(event) => setMessage(event.currentTarget.value)}
        />
      </label>
      <div class="row">
        <label class="inline-field">
          More rounds{" "}
          <input
            type="number"
            min="1"
            max="10000"
            data-testid="resume-rounds"
            placeholder={pair.rounds_left > 0 ? "0" : String(pair.max_rounds)}
            value={rounds}
            onInput={(event) => setRounds(event.currentTarget.value)}
          />
        </label>
        <span class="grow" />
        <button class="primary" type="submit" data-testid="resume-pair" disabled={busy || (isFinished && !message.trim())}>
          <Again size={13} /> Resume
        </button>
      </div>
    </form>
  );
}
