// The thread's name, where it works, and what can be done to it as a whole.

import { Fragment } from "preact";
import { go, page } from "./sync.ts";
import { Back, Files, Gear, Left, Pencil, Trash } from "./icons.tsx";
import { useStore } from "./store.ts";
import { visible } from "./visible.ts";
import type { Thread } from "./wire.ts";
import { dollars, plural, shortPath } from "./words.ts";

/** Where the list is a screen of its own, this leads back to it. */
export const ToList = () => (
  <button class="quiet only-narrow" type="button" aria-label="All threads" data-testid="to-list" onClick={() => go({ at: "home" })}>
    <Left />
  </button>
);

const VERBS: Record<string, string> = { fork: "forked from", replay: "replayed from", merge: "merged from" };

/** What it was forked, replayed or merged from, as that was called then. */
const CameOf = ({ origin }: { origin: NonNullable<Thread["origin"]> }) => (
  <span class="origin" data-testid="origin" title={origin.round === null ? undefined : `at round ${origin.round}`}>
    {VERBS[origin.how] ?? "made from"}{" "}
    {origin.of.map((source, place) => (
      <Fragment key={source.id}>
        {place > 0 && " and "}
        <a href={`#/t/${encodeURIComponent(source.id)}`}>{visible(source.name)}</a>
      </Fragment>
    ))}
  </span>
);

export function ThreadHead({ thread }: { thread: Thread }) {
  const home = useStore(page, (now) => now.settings?.home);
  const changes = useStore(page, (now) => now.route.at === "changes");
  const ask = (is: "rename" | "settings" | "delete") => (): void => page.patch({ dialog: { is, thread: thread.id } });
  return (
    <header class="head">
      <ToList />
      <div class="head-names">
        <h1 title={thread.name} data-testid="thread-name">
          {thread.name}
        </h1>
        <p>
          <span class="path" title={visible(thread.cwd)}>
            {visible(shortPath(thread.cwd, home))}
          </span>
          {thread.origin && <CameOf origin={thread.origin} />}
          <span class="wide">{plural(thread.turns, "turn")}</span>
          {thread.cost_usd > 0 && <span class="wide">{dollars(thread.cost_usd)}</span>}
        </p>
      </div>
      <div class="head-actions">
        <button
          class="quiet"
          type="button"
          data-testid="changes-open"
          aria-pressed={changes}
          title={changes ? "Back to the conversation" : "All file edits of this thread (d)"}
          aria-label={changes ? "Conversation" : "File changes"}
          onClick={() => go({ at: changes ? "thread" : "changes", thread: thread.id })}
        >
          {changes ? <Back /> : <Files />}
        </button>
        <button class="quiet" type="button" title="Rename" aria-label="Rename" data-testid="rename" onClick={ask("rename")}>
          <Pencil />
        </button>
        <button
          class="quiet"
          type="button"
          title="Settings of this thread"
          aria-label="Settings of this thread"
          data-testid="thread-settings"
          onClick={ask("settings")}
        >
          <Gear />
        </button>
        <button class="quiet" type="button" title="Delete" aria-label="Delete" data-testid="delete" onClick={ask("delete")}>
          <Trash />
        </button>
      </div>
    </header>
  );
}
