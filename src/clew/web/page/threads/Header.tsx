// The header of a thread: its name and directory, and the actions on the whole thread.

import { Fragment } from "preact";
import type { Thread } from "../daemon/wire.ts";
import { page, type ThreadDialog } from "../state/page.ts";
import { go, hashOf } from "../state/routes.ts";
import { useStore } from "../state/store.ts";
import { dollars, plural, shortPath } from "../text/format.ts";
import { visible } from "../text/visible.ts";
import { BackToList } from "../ui/BackToList.tsx";
import { Back, Files, Gear, More, Pencil, Trash } from "../ui/icons.tsx";
import { Menu } from "../ui/Menu.tsx";

const ORIGINS: Record<string, string> = { fork: "forked from", replay: "replayed from", merge: "merged from" };

/** The threads that it was forked, replayed or merged from, by their names at that time. */
const Origin = ({ origin }: { origin: NonNullable<Thread["origin"]> }) => (
  <span class="origin" data-testid="origin" title={origin.round === null ? undefined : `at round ${origin.round}`}>
    {ORIGINS[origin.how] ?? "made from"}{" "}
    {origin.of.map((source, place) => (
      <Fragment key={source.id}>
        {place > 0 && " and "}
        <a href={hashOf({ at: "thread", thread: source.id })}>{visible(source.name)}</a>
      </Fragment>
    ))}
  </span>
);

const ACTIONS: { is: ThreadDialog; label: string }[] = [
  { is: "export", label: "Export…" },
  { is: "push", label: "Push to a remote…" },
  { is: "replay", label: "Replay with another model…" },
  { is: "compare", label: "Compare with…" },
  { is: "merge", label: "Merge with…" },
  { is: "archive", label: "Archive…" },
];

export function ThreadHeader({ thread }: { thread: Thread }) {
  const home = useStore(page, (now) => now.settings?.home);
  const changes = useStore(page, (now) => now.route.at === "changes");
  const ask = (is: ThreadDialog) => (): void => page.patch({ dialog: { is, thread: thread.id } });
  return (
    <header class="head">
      <BackToList />
      <div class="head-names">
        <h1 title={thread.name} data-testid="thread-name">
          {thread.name}
        </h1>
        <p>
          <span class="path" title={visible(thread.cwd)}>
            {visible(shortPath(thread.cwd, home))}
          </span>
          {thread.origin && <Origin origin={thread.origin} />}
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
          title="Thread settings"
          aria-label="Thread settings"
          data-testid="thread-settings"
          onClick={ask("settings")}
        >
          <Gear />
        </button>
        <button class="quiet" type="button" title="Delete" aria-label="Delete" data-testid="delete" onClick={ask("delete")}>
          <Trash />
        </button>
        <Menu
          label="More actions (m)"
          testid="thread-menu"
          items={ACTIONS.map(({ is, label }) => ({ label, testid: `menu-${is}`, act: ask(is) }))}
        >
          <More />
        </Menu>
      </div>
    </header>
  );
}
