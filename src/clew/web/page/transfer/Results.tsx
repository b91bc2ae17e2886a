// What became of each thread that was pushed or pulled.

import type { FailedThread, PulledThread, PushedThread } from "../daemon/wire.ts";
import { openByName } from "../state/open.ts";
import { bytes, plural } from "../text/format.ts";
import { visible } from "../text/visible.ts";
import { Secrets } from "../ui/Progress.tsx";

type Transferred = PushedThread | PulledThread | FailedThread;

const TONES: Record<Transferred["state"], string> = {
  pushed: "good",
  new: "good",
  updated: "good",
  unchanged: "plain",
  behind: "warning",
  ahead: "plain",
  conflict: "bad",
  failed: "bad",
};

const WORDS: Partial<Record<Transferred["state"], string>> = {
  behind: "the remote is newer: pull first",
  ahead: "newer here",
};

/** `dryRun`: nothing was done yet. */
export const Results = ({ threads, dryRun }: { threads: readonly Transferred[]; dryRun: boolean }) => (
  <ul class="results" data-testid="results">
    {threads.length === 0 && <li>There is nothing to transfer.</li>}
    {threads.map((thread) => (
      <li key={thread.name} data-state={thread.state}>
        <span class={`chip ${TONES[thread.state]}`}>{dryRun && !thread.error ? `would be ${thread.state}` : thread.state}</span>{" "}
        <strong>{visible(thread.name)}</strong> <Details thread={thread} />
      </li>
    ))}
  </ul>
);

function Details({ thread }: { thread: Transferred }) {
  if (thread.error) {
    return (
      <>
        <p>
          {visible(thread.error.message)} {thread.error.hint && visible(thread.error.hint)}
        </p>
        {"secrets" in thread.error && <Secrets secrets={thread.error.secrets} />}
      </>
    );
  }
  const words = WORDS[thread.state];
  return (
    <>
      <span class="muted">
        {[words, plural(thread.turns, "turn"), "sent_bytes" in thread ? bytes(thread.sent_bytes) : ""].filter(Boolean).join(" · ")}
      </span>
      {"notes" in thread && thread.notes.map((note) => <p key={note}>{visible(note)}</p>)}
      {"notes" in thread && (
        <button class="link" type="button" onClick={() => void openByName(thread.name)}>
          Open
        </button>
      )}
    </>
  );
}
