// Opens a thread of which only the name is known: the addresses of the page have ids.

import { http } from "../daemon/http.ts";
import { attempt, closeDialog } from "./page.ts";
import { go } from "./routes.ts";

export async function openByName(name: string): Promise<void> {
  const found = await attempt(http.thread(name));
  if (!found) return;
  closeDialog();
  go({ at: "thread", thread: found.id });
}

export function openThread(id: string): void {
  closeDialog();
  go({ at: "thread", thread: id });
}
