// The page's dialogs. The browser's own <dialog> traps the focus, closes on Escape and hides the rest from readers.

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { changeThread, deleteThread, resetHook } from "./actions.ts";
import { daemon, page } from "./sync.ts";
import { Close } from "./icons.tsx";
import { NewJob } from "./JobForm.tsx";
import { NewReview } from "./ReviewForm.tsx";
import { useStore } from "./store.ts";
import { NewThread, ThreadSettings } from "./ThreadForm.tsx";
import { visible } from "./visible.ts";
import type { HookSession, Thread } from "./wire.ts";
import { asName, plural } from "./words.ts";

const close = (): void => page.patch({ dialog: null, complaint: null });

export function Dialogs() {
  const dialog = useStore(page, (now) => now.dialog);
  const threads = useStore(daemon, (now) => now.threads);
  const conversation = useStore(daemon, (now) => now.conversation?.thread ?? null);
  if (!dialog) return null;
  if (dialog.is === "new") {
    return (
      <Modal title="New thread" testid="new-thread-dialog">
        <NewThread close={close} />
      </Modal>
    );
  }
  if (dialog.is === "job") {
    return (
      <Modal title="New job" testid="new-job-dialog">
        <NewJob close={close} />
      </Modal>
    );
  }
  if (dialog.is === "review") {
    return (
      <Modal title="New review" testid="new-review-dialog">
        <NewReview close={close} />
      </Modal>
    );
  }
  if (dialog.is === "reset") {
    return (
      <Modal title="Forget this session?" testid="reset-dialog">
        <Reset session={dialog.session} />
      </Modal>
    );
  }
  if (dialog.is === "help") {
    return (
      <Modal title="Keys" testid="help-dialog">
        <Keys />
      </Modal>
    );
  }
  const thread = conversation?.id === dialog.thread ? conversation : threads.find((each) => each.id === dialog.thread);
  if (!thread) return null;
  switch (dialog.is) {
    case "settings":
      return (
        <Modal title="Settings of this thread" testid="settings-dialog">
          <ThreadSettings thread={thread} close={close} />
        </Modal>
      );
    case "rename":
      return (
        <Modal title="Rename" testid="rename-dialog">
          <Rename thread={thread} />
        </Modal>
      );
    case "delete":
      return (
        <Modal title="Delete this thread?" testid="delete-dialog">
          <Delete thread={thread} />
        </Modal>
      );
  }
}

function Modal({ title, testid, children }: { title: string; testid: string; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = ref.current;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const onClick = (event: MouseEvent): void => {
    if (event.target === ref.current) close(); // the backdrop belongs to the dialog itself
  };
  return (
    <dialog
      ref={ref}
      aria-labelledby={id}
      data-testid={testid}
      onCancel={(event) => (event.preventDefault(), close())}
      onMouseDown={onClick}
    >
      <div class="dialog-inside">
        <header>
          <h2 id={id}>{title}</h2>
          <button class="quiet" type="button" aria-label="Close" onClick={close}>
            <Close />
          </button>
        </header>
        {children}
        <Complained />
      </div>
    </dialog>
  );
}

/** What is about no field of the form. */
function Complained() {
  const complaint = useStore(page, (now) => (now.complaint && !now.complaint.field ? now.complaint : null));
  const ref = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => ref.current?.scrollIntoView({ block: "nearest" }), [complaint]);
  return complaint ? (
    <p class="wrong" ref={ref} role="alert" data-testid="dialog-problem">
      {complaint.text} {complaint.hint}
    </p>
  ) : null;
}

function Rename({ thread }: { thread: Thread }) {
  const [name, setName] = useState(thread.name);
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (asName(name) && (await changeThread(thread.id, { name: asName(name) }))) close();
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
      {asName(name) !== name && <p class="hint">As {asName(name) || "…"}: letters, digits, dots, dashes.</p>}
      <div class="row end">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button class="primary" type="submit" disabled={!asName(name)}>
          Rename
        </button>
      </div>
    </form>
  );
}

function Delete({ thread }: { thread: Thread }) {
  const [busy, setBusy] = useState(false);
  const remove = async (): Promise<void> => {
    setBusy(true);
    if (await deleteThread(thread.id)) close();
    setBusy(false);
  };
  return (
    <>
      <p>
        “{thread.name}” with {plural(thread.turns, "turn")}. It is written to an archive file first, then removed from the list.
        The agent's own session files stay.
      </p>
      <div class="row end">
        <button type="button" autoFocus onClick={close}>
          Keep it
        </button>
        <button class="danger" type="button" disabled={busy} data-testid="confirm-delete" onClick={() => void remove()}>
          Archive and delete
        </button>
      </div>
    </>
  );
}

function Reset({ session }: { session: HookSession }) {
  const [busy, setBusy] = useState(false);
  const reset = async (): Promise<void> => {
    setBusy(true);
    if (await resetHook(session)) close();
    setBusy(false);
  };
  return (
    <>
      <p>
        {visible(session.key)}: the next event starts afresh, with the whole skill. The conversation so far and the work tree are kept.
        {session.state === "running" && " What is running goes on to its end."}
      </p>
      <div class="row end">
        <button type="button" autoFocus onClick={close}>
          Keep it
        </button>
        <button class="danger" type="button" disabled={busy} data-testid="confirm-reset" onClick={() => void reset()}>
          Forget it
        </button>
      </div>
    </>
  );
}

const KEYS: [string, string][] = [
  ["/", "search threads"],
  ["n", "new thread"],
  ["j  k", "next, previous thread"],
  ["c", "write: to the composer"],
  ["Enter", "send; Shift+Enter for a new line"],
  ["Ctrl+Enter", "send or save, from any field"],
  ["Esc", "stop the run; close what is open"],
  ["e", "edit what you said last"],
  ["f", "fresh session for the next turn"],
  ["d", "file changes of the thread"],
  ["b  r  h  s  a", "jobs, reviews, hooks, savings, agents"],
  ["?", "this list"],
];

const Keys = () => (
  <dl class="keys">
    {KEYS.map(([keys, does]) => (
      <div key={keys}>
        <dt>
          {keys.split("  ").map((key) => (
            <kbd key={key}>{key}</kbd>
          ))}
        </dt>
        <dd>{does}</dd>
      </div>
    ))}
  </dl>
);
