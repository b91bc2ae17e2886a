// The dialogs of the page: one is open at a time.

import { useState } from "preact/hooks";
import type { HookSession, Thread } from "./daemon/wire.ts";
import { NewJob } from "./jobs/Form.tsx";
import { NewReview } from "./reviews/Form.tsx";
import { changeThread, deleteThread, resetHook } from "./state/actions.ts";
import { closeDialog, page } from "./state/page.ts";
import { useStore } from "./state/store.ts";
import { daemon } from "./state/sync.ts";
import { plural, slug } from "./text/format.ts";
import { visible } from "./text/visible.ts";
import { NewThread, ThreadSettings } from "./threads/Form.tsx";
import { Modal } from "./ui/Modal.tsx";

export function Dialogs() {
  const dialog = useStore(page, (now) => now.dialog);
  const threads = useStore(daemon, (now) => now.threads);
  const conversation = useStore(daemon, (now) => now.conversation?.thread ?? null);
  if (!dialog) return null;
  if (dialog.is === "new") {
    return (
      <Modal title="New thread" testid="new-thread-dialog">
        <NewThread close={closeDialog} />
      </Modal>
    );
  }
  if (dialog.is === "job") {
    return (
      <Modal title="New job" testid="new-job-dialog">
        <NewJob close={closeDialog} />
      </Modal>
    );
  }
  if (dialog.is === "review") {
    return (
      <Modal title="New review" testid="new-review-dialog">
        <NewReview close={closeDialog} />
      </Modal>
    );
  }
  if (dialog.is === "reset") {
    return (
      <Modal title="Forget this session?" testid="reset-dialog">
        <ResetSession session={dialog.session} />
      </Modal>
    );
  }
  if (dialog.is === "help") {
    return (
      <Modal title="Keyboard shortcuts" testid="help-dialog">
        <Shortcuts />
      </Modal>
    );
  }
  const thread = conversation?.id === dialog.thread ? conversation : threads.find((each) => each.id === dialog.thread);
  if (!thread) return null;
  switch (dialog.is) {
    case "settings":
      return (
        <Modal title="Thread settings" testid="settings-dialog">
          <ThreadSettings thread={thread} close={closeDialog} />
        </Modal>
      );
    case "rename":
      return (
        <Modal title="Rename thread" testid="rename-dialog">
          <RenameThread thread={thread} />
        </Modal>
      );
    case "delete":
      return (
        <Modal title="Delete this thread?" testid="delete-dialog">
          <DeleteThread thread={thread} />
        </Modal>
      );
  }
}

function RenameThread({ thread }: { thread: Thread }) {
  const [name, setName] = useState(thread.name);
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (slug(name) && (await changeThread(thread.id, { name: slug(name) }))) closeDialog();
  };
  return (
    <form onSubmit={(event) => void save(event)}>
      <label class="field">
        Name
        <input
          type="text"
          autoFocus
          data-testid="rename-field"
          value={name}
          onFocus={(event) => event.currentTarget.select()}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      {slug(name) !== name && <p class="hint">
          Saved as {slug(name) || "…"}: only letters, digits, dots, dashes and underscores are allowed.
        </p>}
      <div class="row end">
        <button type="button" onClick={closeDialog}>
          Cancel
        </button>
        <button class="primary" type="submit" disabled={!slug(name)}>
          Rename
        </button>
      </div>
    </form>
  );
}

function DeleteThread({ thread }: { thread: Thread }) {
  const [busy, setBusy] = useState(false);
  const remove = async (): Promise<void> => {
    setBusy(true);
    if (await deleteThread(thread.id)) closeDialog();
    setBusy(false);
  };
  return (
    <>
      <p>
        “{thread.name}” has {plural(thread.turns, "turn")}. Clew writes it to an archive file first, then deletes it. The
        agent's own session files are kept.
      </p>
      <div class="row end">
        <button type="button" autoFocus onClick={closeDialog}>
          Cancel
        </button>
        <button class="danger" type="button" disabled={busy} data-testid="confirm-delete" onClick={() => void remove()}>
          Archive and delete
        </button>
      </div>
    </>
  );
}

function ResetSession({ session }: { session: HookSession }) {
  const [busy, setBusy] = useState(false);
  const reset = async (): Promise<void> => {
    setBusy(true);
    if (await resetHook(session)) closeDialog();
    setBusy(false);
  };
  return (
    <>
      <p>
        {visible(session.key)}: the next event starts a fresh session, with the whole skill. The conversation so far and the
        work tree are kept.{session.state === "running" && " The current run continues to its end."}
      </p>
      <div class="row end">
        <button type="button" autoFocus onClick={closeDialog}>
          Cancel
        </button>
        <button class="danger" type="button" disabled={busy} data-testid="confirm-reset" onClick={() => void reset()}>
          Forget
        </button>
      </div>
    </>
  );
}

const SHORTCUTS: [string, string][] = [
  ["/", "search threads"],
  ["n", "new thread"],
  ["j  k", "next, previous thread"],
  ["c", "go to the composer"],
  ["Enter", "send; Shift+Enter for a new line"],
  ["Ctrl+Enter", "send or save, from any field"],
  ["Esc", "close what is open, or stop the run"],
  ["e", "edit your last message"],
  ["f", "fresh session for the next turn"],
  ["d", "file changes of the thread"],
  ["b  r  h  s  a", "jobs, reviews, hooks, savings, agents"],
  ["?", "show this list"],
];

const Shortcuts = () => (
  <dl class="keys">
    {SHORTCUTS.map(([keys, effect]) => (
      <div key={keys}>
        <dt>
          {keys.split("  ").map((key) => (
            <kbd key={key}>{key}</kbd>
          ))}
        </dt>
        <dd>{effect}</dd>
      </div>
    ))}
  </dl>
);
