// All file edits of a thread's runs, by file, in the order in which they were made.

import { useEffect, useMemo, useState } from "preact/hooks";
import { http } from "../daemon/http.ts";
import type { Turn } from "../daemon/wire.ts";
import { progressOf, type Progress } from "../state/progress.ts";
import type { ConversationState } from "../state/reducer.ts";
import { useStore } from "../state/store.ts";
import { daemon, loadEarlier } from "../state/sync.ts";
import { plural } from "../text/format.ts";
import { visible } from "../text/visible.ts";
import { EditDiff } from "../tools/EditDiff.tsx";
import { editsOf, lineCounts, type Edit } from "../tools/edits.ts";
import { ThreadHeader } from "./Header.tsx";

export function FileChanges() {
  const conversation = useStore(daemon, (now) => now.conversation);
  if (!conversation) return <div class="empty" aria-busy="true" />;
  return <LoadedChanges conversation={conversation} />;
}

/** The runs of a turn that may contain edits. A run without an answer belongs to its prompt. */
const runsOf = ({ role, run, run_id, steps }: Turn): string[] =>
  role === "user" ? (run?.started_at ? [run.id] : []) : run_id && steps > 0 ? [run_id] : [];

function LoadedChanges({ conversation }: { conversation: ConversationState }) {
  const runs = useMemo(
    () => conversation.turns.flatMap(runsOf),
    [conversation.turns],
  );
  const { known, loading } = useProgressOf(runs);
  const files = byFile(runs.map((run) => known[run]).filter((each): each is Progress => each !== undefined));
  return (
    <div class="view" data-testid="changes-view">
      <ThreadHeader thread={conversation.thread} />
      <div class="scroll" tabIndex={0} role="region" aria-label="File changes">
        <div class="column wide">
          {conversation.more && (
            <button class="quiet earlier" type="button" onClick={() => void loadEarlier().catch(() => undefined)}>
              Include earlier turns
            </button>
          )}
          {files.length === 0 && (
            <div class="empty inside" aria-busy={loading}>
              {!loading && (
                <>
                  <h2>No file changes</h2>
                  <p>When the agent writes or edits files with its tools, the edits are listed here by file.</p>
                </>
              )}
            </div>
          )}
          {files.map(([path, edits]) => (
            <File key={path} path={path} edits={edits} />
          ))}
        </div>
      </div>
    </div>
  );
}

function File({ path, edits }: { path: string; edits: Edit[] }) {
  const { added, removed } = lineCounts(edits);
  return (
    <details class="fold file" open>
      <summary>
        <span class="tool-name">{visible(path)}</span>
        <span class="tool-size">
          <ins>+{added}</ins> <del>−{removed}</del>
        </span>
        <span class="tool-arg">{plural(edits.length, "edit")}</span>
      </summary>
      {edits.map((edit, index) => (
        <EditDiff key={index} edit={edit} />
      ))}
    </details>
  );
}

function byFile(runs: readonly Progress[]): [string, Edit[]][] {
  const files = new Map<string, Edit[]>();
  for (const progress of runs) {
    for (const part of progress.parts) {
      if (part.kind !== "tool" || part.state === "failed" || part.state === "declined") continue;
      for (const edit of editsOf(part.input)) files.set(edit.path, [...(files.get(edit.path) ?? []), edit]);
    }
  }
  return [...files];
}

function useProgressOf(runs: readonly string[]): { known: Record<string, Progress>; loading: boolean } {
  const [known, setKnown] = useState<Record<string, Progress>>({});
  const missing = runs.filter((run) => !known[run]);
  useEffect(() => {
    let wanted = true;
    void (async () => {
      for (const run of missing) {
        const steps = await http.steps(run).catch(() => ({ items: [] }));
        if (!wanted) return;
        setKnown((before) => ({ ...before, [run]: progressOf(steps.items) }));
      }
    })();
    return () => {
      wanted = false;
    };
  }, [runs]);
  return { known, loading: missing.length > 0 };
}
