// The archives of threads: the list, and what a person does with them.

import { Problem } from "../daemon/http.ts";
import { transferCalls } from "../daemon/transfer.ts";
import type { ArchiveFile, Thread } from "../daemon/wire.ts";
import { attempt, notify, page } from "./page.ts";
import { refresher } from "./refresher.ts";
import { go } from "./routes.ts";
import { forgetThread } from "./storage.ts";
import { Store } from "./store.ts";
import { dispatch } from "./sync.ts";

interface ArchivesState {
  items: readonly ArchiveFile[]; // the newest first
  listed: boolean;
  error: Problem | null; // why they could not be loaded
}

export const archives = new Store<ArchivesState>({ items: [], listed: false, error: null });

export const refreshArchives = refresher(async () => {
  try {
    const { items } = await transferCalls.archives();
    archives.patch({ items, listed: true, error: null });
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.status === 401) throw problem;
    archives.patch({ error: problem });
  }
});

/** Archives a thread, and leaves its view. */
export async function archiveThread({ id, name }: Thread): Promise<boolean> {
  const done = await attempt(transferCalls.archive(id));
  if (!done) return false;
  const { route } = page.now;
  if ("thread" in route && route.thread === id) go({ at: "home" });
  dispatch({ type: "changed", version: 0, threads: [], deleted: [id] });
  forgetThread(id);
  notify(`“${name}” is archived.`, "It can be restored from Archives.");
  return true;
}
