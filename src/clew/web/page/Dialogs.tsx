// The dialogs of the page: one is open at a time.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { CompareWith } from "./branching/CompareDialog.tsx";
import { MergeThreads } from "./branching/MergeThreads.tsx";
import { ReplayThread } from "./branching/ReplayThread.tsx";
import { Explain } from "./conversation/Explain.tsx";
import type { HookSession, Pair, Thread } from "./daemon/wire.ts";
import { NewJob } from "./jobs/Form.tsx";
import { ComparePair, MergePairs } from "./pairs/Branching.tsx";
import { NewPair } from "./pairs/Form.tsx";
import { ReplayPair } from "./pairs/Replay.tsx";
import { NewReview } from "./reviews/Form.tsx";
import { changeThread, deleteThread, resetHook } from "./state/actions.ts";
import { closeDialog, page, type PageDialog, type PairDialog, type ThreadDialog } from "./state/page.ts";
import { pairs } from "./state/pairs.ts";
import { useStore } from "./state/store.ts";
import { daemon } from "./state/sync.ts";
import { plural, slug } from "./text/format.ts";
import { visible } from "./text/visible.ts";
import { NewThread, ThreadSettings } from "./threads/Form.tsx";
import { ArchiveThread } from "./transfer/ArchiveThread.tsx";
import { CleanUp } from "./transfer/CleanUp.tsx";
import { ExportThread } from "./transfer/ExportThread.tsx";
import { ImportFile } from "./transfer/ImportFile.tsx";
import { PullThreads } from "./transfer/PullThreads.tsx";
import { PushThread } from "./transfer/PushThread.tsx";
import { Modal } from "./ui/Modal.tsx";

interface Content<P> {
  title: string;
  testid: string;
  Body: (props: P) => ComponentChildren;
}

const PAGE_DIALOGS: Record<PageDialog, Content<object>> = {
  new: { title: "New thread", testid: "new-thread-dialog", Body: () => <NewThread close={closeDialog} /> },
  job: { title: "New job", testid: "new-job-dialog", Body: () => <NewJob close={closeDialog} /> },
  review: { title: "New review", testid: "new-review-dialog", Body: () => <NewReview close={closeDialog} /> },
  pair: { title: "New pair", testid: "new-pair-dialog", Body: () => <NewPair close={closeDialog} /> },
  import: { title: "Import a file", testid: "import-dialog", Body: ImportFile },
  pull: { title: "Pull from a remote", testid: "pull-dialog", Body: PullThreads },
  clean: { title: "Clean up", testid: "clean-dialog", Body: CleanUp },
  help: { title: "Keyboard shortcuts", testid: "help-dialog", Body: () => <Shortcuts /> },
};

const THREAD_DIALOGS: Record<ThreadDialog, Content<{ thread: Thread }>> = {
  settings: {
    title: "Thread settings",
    testid: "settings-dialog",
    Body: ({ thread }) => <ThreadSettings thread={thread} close={closeDialog} />,
  },
  rename: { title: "Rename thread", testid: "rename-dialog", Body: RenameThread },
  delete: { title: "Delete this thread?", testid: "delete-dialog", Body: DeleteThread },
  export: { title: "Export this thread", testid: "export-dialog", Body: ExportThread },
  push: { title: "Push this thread", testid: "push-dialog", Body: PushThread },
  replay: { title: "Replay this thread", testid: "replay-dialog", Body: ReplayThread },
  compare: { title: "Compare this thread", testid: "compare-dialog", Body: CompareWith },
  merge: { title: "Merge this thread", testid: "merge-dialog", Body: MergeThreads },
  archive: { title: "Archive this thread?", testid: "archive-dialog", Body: ArchiveThread },
};

const PAIR_DIALOGS: Record<PairDialog, Content<{ pair: Pair }>> = {
  replay_pair: { title: "Replay this pair", testid: "replay-dialog", Body: ReplayPair },
  compare_pair: { title: "Compare this pair", testid: "compare-dialog", Body: ComparePair },
  merge_pairs: { title: "Merge this pair", testid: "merge-dialog", Body: MergePairs },
};

export function Dialogs() {
  const dialog = useStore(page, (now) => now.dialog);
  const threads = useStore(daemon, (now) => now.threads);
  const conversation = useStore(daemon, (now) => now.conversation?.thread ?? null);
  const pair = useStore(pairs, (now) => now.open);
  if (!dialog) return null;
  if (dialog.is === "reset") {
    return (
      <Modal title="Forget this session?" testid="reset-dialog">
        <ResetSession session={dialog.session} />
      </Modal>
    );
  }
  if (dialog.is === "explain") {
    return (
      <Modal title="What the next prompt would do" testid="explain-dialog">
        <Explain thread={dialog.thread} ask={dialog.ask} />
      </Modal>
    );
  }
  if ("pair" in dialog) {
    if (pair?.id !== dialog.pair) return null;
    const { title, testid, Body } = PAIR_DIALOGS[dialog.is];
    return (
      <Modal key={dialog.is} title={title} testid={testid}>
        <Body pair={pair} />
      </Modal>
    );
  }
  if (!("thread" in dialog)) {
    const { title, testid, Body } = PAGE_DIALOGS[dialog.is];
    return (
      <Modal key={dialog.is} title={title} testid={testid}>
        <Body />
      </Modal>
    );
  }
  const thread = conversation?.id === dialog.thread ? conversation : threads.find((each) => each.id === dialog.thread);
  if (!thread) return null;
  const { title, testid, Body } = THREAD_DIALOGS[dialog.is];
  return (
    <Modal key={dialog.is} title={title} testid={testid}>
      <Body thread={thread} />
    </Modal>
  );
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
        “{thread.name}” has {plural(thread.turns, "turn")}. Clew writes it to an archive file first, then deletes it. It
        can be restored from Archives. The agent's own session files are kept.
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
  ["m", "more actions on the thread: export, replay, compare"],
  ["w", "what the next prompt would do"],
  ["i", "import a file"],
  ["b  r  p  h  s  a", "jobs, reviews, pairs, hooks, savings, agents"],
  ["o", "operations, such as exports and replays"],
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
