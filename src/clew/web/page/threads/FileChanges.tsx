// Every file edit of the thread's runs, by file, in the order they were made.

import { useEffect, useMemo, useState } from "preact/hooks";
import { daemon, loadEarlier } from "./sync.ts";
import { editsOf, size, type Edit } from "./edits.ts";
import { http } from "./http.ts";
import { fromSteps, type Progress } from "./progress.ts";
import type { Conversation } from "./state.ts";
import { Diff } from "./Steps.tsx";
import { useStore } from "./store.ts";
import { ThreadHead } from "./ThreadHead.tsx";
import { visible } from "./visible.ts";
import type { Turn } from "./wire.ts";
import { plural } from "./words.ts";

export function Changes() {
  const conversation = useStore(daemon, (now) => now.conversation);
  if (!conversation) return <div class="empty" aria-busy="true" />;
  return <Opened conversation={conversation} />;
}

/** The runs to be looked through for edits; one that gave no answer hangs on its prompt. */
const runsOf = ({ role, run, run_id, steps }: Turn): string[] =>
  role === "user" ? (run?.started_at ? [run.id] : []) : run_id && steps > 0 ? [run_id] : [];

function Opened({ conversation }: { conversation: Conversation }) {
  const runs = useMemo(
    () => conversation.turns.flatMap(runsOf),
    [conversation.turns],
  );
  const { known, loading } = useSteps(runs);
  const files = byFile(runs.map((run) => known[run]).filter((each): each is Progress => each !== undefined));
  return (
    <div class="view" data-testid="changes-view">
      <ThreadHead thread={conversation.thread} />
      <div class="scroll" tabIndex={0} role="region" aria-label="File changes">
        <div class="column wide">
          {conversation.more && (
            <button class="quiet earlier" type="button" onClick={() => void loadEarlier().catch(() => undefined)}>
              Look through earlier turns too
            </button>
          )}
          {files.length === 0 && (
            <div class="empty inside" aria-busy={loading}>
              {!loading && (
                <>
                  <h2>No file changes</h2>
                  <p>When the agent writes or edits files with its tools, the edits are here, file by file.</p>
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
  const { added, removed } = size(edits);
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
        <Diff key={index} edit={edit} />
      ))}
    </details>
  );
}

function byFile(runs: readonly Progress[]): [string, Edit[]][] {
  const files = new Map<string, Edit[]>();
  for (const progress of runs) {
    for (const part of progress.parts) {
      if (part.kind !== "tool" || part.state === "failed" || part.state === "declined") continue;
      for (const edit of editsOf(part)) files.set(edit.path, [...(files.get(edit.path) ?? []), edit]);
    }
  }
  return [...files];
}

function useSteps(runs: readonly string[]): { known: Record<string, Progress>; loading: boolean } {
  const [known, keep] = useState<Record<string, Progress>>({});
  const missing = runs.filter((run) => !known[run]);
  useEffect(() => {
    let wanted = true;
    void (async () => {
      for (const run of missing) {
        const steps = await http.steps(run).catch(() => ({ items: [] }));
        if (!wanted) return;
        keep((before) => ({ ...before, [run]: fromSteps(steps.items) }));
      }
    })();
    return () => {
      wanted = false;
    };
  }, [runs]);
  return { known, loading: missing.length > 0 };
}
