// The page's own state: the connection, the open view and dialog, notices, and the settings and agents of the daemon.

import { onResponse, Problem, UNREACHABLE } from "../daemon/http.ts";
import type { Agent, HookSession, SessionPreview, Settings } from "../daemon/wire.ts";
import type { Route } from "./routes.ts";
import { Store } from "./store.ts";

/** A dialog about a thread. */
export type ThreadDialog =
  | "settings"
  | "rename"
  | "delete"
  | "export"
  | "replay"
  | "compare"
  | "merge"
  | "push"
  | "archive";

/** A dialog about the open pair. */
export type PairDialog = "replay_pair" | "compare_pair" | "merge_pairs";

/** A dialog that needs nothing to be open. */
export type PageDialog = "new" | "job" | "review" | "pair" | "import" | "pull" | "clean" | "help";

type Dialog =
  | { is: PageDialog }
  | { is: ThreadDialog; thread: string }
  | { is: PairDialog; pair: string }
  | { is: "explain"; thread: string; ask: Record<string, unknown> } // the body of the request that would ask
  | { is: "reset"; session: HookSession }
  | null;

interface Notice {
  id: number;
  tone: "plain" | "problem";
  text: string;
  hint: string;
  code: string; // of the problem; empty when the notice is not about one
}

/** Why a dialog's request failed. It is shown in the dialog, because the backdrop would cover a notice. */
interface FormError {
  text: string;
  hint: string;
  code: string;
  field: "cwd" | null; // the field that it is about
}

interface PageState {
  connection: "connecting" | "open" | "lost" | "refused";
  route: Route;
  dialog: Dialog;
  formError: FormError | null; // in the open dialog
  notices: readonly Notice[];
  settings: Settings | null;
  agents: readonly Agent[] | null;
  session: (SessionPreview & { thread: string }) | null; // what the next turn would do
  editing: string | null; // the turn that is being edited
  browsing: boolean; // the user steps through threads with the keyboard: the composer does not take the focus
}

export const page = new Store<PageState>({
  connection: "connecting",
  route: { at: "home" },
  dialog: null,
  formError: null,
  notices: [],
  settings: null,
  agents: null,
  session: null,
  editing: null,
  browsing: false,
});

/** False while the agents are not loaded. */
export const noAgentReady = ({ agents }: PageState): boolean => agents?.every((agent) => agent.problem) ?? false;

let lastNotice = 0;

export function notify(text: string, hint = "", tone: Notice["tone"] = "plain", code = ""): void {
  const notice = { id: ++lastNotice, tone, text, hint, code };
  const others = page.now.notices.filter((each) => each.text !== text);
  page.patch({ notices: [...others.slice(-2), notice] });
  setTimeout(() => dismiss(notice.id), tone === "problem" ? 12_000 : 6_000);
}

export const dismiss = (id: number): void =>
  page.patch({ notices: page.now.notices.filter((notice) => notice.id !== id) });

export const closeDialog = (): void => page.patch({ dialog: null, formError: null });

/** The daemon answers 401 to a browser without the token. */
export function checkRefused(problem: unknown): void {
  if (problem instanceof Problem && problem.status === 401) page.patch({ connection: "refused" });
}

/** For requests that nobody asked for: a failure is not shown, unless the daemon refuses this browser. */
export async function inBackground(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (problem) {
    checkRefused(problem);
  }
}

/** For what a person asked for: shows why it failed, and returns null then. `cwd`: the directory in the request. */
export async function attempt<T>(work: Promise<T>, cwd?: unknown): Promise<T | null> {
  if (page.now.formError) page.patch({ formError: null });
  try {
    return await work;
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    checkRefused(problem);
    if (page.now.dialog) page.patch({ formError: formErrorOf(problem, cwd) });
    else notify(problem.message, problem.hint, "problem", problem.code);
    return null;
  }
}

function formErrorOf({ code, message, hint }: Problem, cwd: unknown): FormError {
  const isAboutCwd = typeof cwd === "string" && (code === "forbidden" || message.includes(cwd));
  return { text: message, hint, code, field: isAboutCwd ? "cwd" : null };
}

/** Removes what was shown while the daemon did not answer: it does now. */
export function clearUnreachable(): void {
  const { notices, formError } = page.now;
  if (notices.some((notice) => notice.code === UNREACHABLE)) {
    page.patch({ notices: notices.filter((notice) => notice.code !== UNREACHABLE) });
  }
  if (formError?.code === UNREACHABLE) page.patch({ formError: null });
}

onResponse(clearUnreachable);
