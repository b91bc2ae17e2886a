// Numbers, times and reasons as a person says them.

import type { Agent, JobStatus, Permissions, RunNote, RunStatus, Scope, Usage, Visibility } from "./wire.ts";

/** Why a turn started fresh, after "fresh: ". The list is that of docs/decision.md. */
const REASONS: Record<string, string> = {
  disabled: "resume is switched off",
  unsupported: "this agent cannot resume",
  forced_fresh: "you asked for it",
  first_turn: "first turn",
  no_pin: "no session of this agent and model to resume",
  poisoned: "the session's history was broken",
  history_changed: "history changed",
  work_dir_changed: "the work directory changed",
  runtime_changed: "the agent's program changed",
  expired: "the session was too old",
  worn_out: "the session was resumed often enough",
  session_missing: "the session's file is gone",
  session_diverged: "the session went on outside Clew; what was said there is not in this thread",
  session_damaged: "the session's file was altered; what it held is not in it as it was",
  cannot_fork: "the agent cannot copy the session up to there",
  unconfirmed: "the last run was cut off, and its session does not tell how far it came",
  rejected: "the agent did not know the session",
  overflow: "it did not fit the model's context",
};

export const reasonWords = (reason: string | null): string =>
  reason ? (REASONS[reason] ?? reason.replaceAll("_", " ")) : "new session";

export const STATUS_WORDS: Record<RunStatus, string> = {
  queued: "queued",
  running: "running",
  waiting: "waiting for you",
  answered: "answered",
  cancelled: "stopped",
  timed_out: "timed out",
  failed: "failed",
  interrupted: "interrupted",
};

export const JOB_WORDS: Record<JobStatus, string> = {
  queued: "queued",
  running: "running",
  waiting: "waiting",
  blocked: "blocked: log in",
  conflict: "conflict",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
};

export const SCOPES: { value: Scope; label: string; means: string }[] = [
  { value: "all", label: "All", means: "All that is not committed, and new files." },
  { value: "staged", label: "Staged", means: "What the next commit would hold." },
  { value: "unstaged", label: "Unstaged", means: "What is not staged, and new files." },
];

interface PermissionWords {
  value: Permissions;
  label: string;
  short: string;
  means: string;
}

const OF_ONE_THAT_ASKS: PermissionWords[] = [
  { value: "ask", label: "Ask", short: "asks first", means: "You are asked before the agent changes a file or runs a command." },
  { value: "edits", label: "Edits", short: "edits freely", means: "Files may be changed without asking; commands are asked for." },
  { value: "read-only", label: "Read-only", short: "read-only", means: "The agent may read. Everything else is declined." },
  { value: "all", label: "All", short: "allows all", means: "Nothing is asked: the agent may change files and run any command." },
];

/** Nobody can be asked, so what is not allowed beforehand does not happen. */
const OF_ONE_THAT_CANNOT: PermissionWords[] = [
  { value: "ask", label: "Ask", short: "reads only", means: "This agent cannot ask you: it can read, and change nothing." },
  { value: "edits", label: "Edits", short: "edits, sandboxed", means: "Files in the directory may be changed; commands run in a sandbox." },
  { value: "read-only", label: "Read-only", short: "read-only", means: "The agent can read, and change nothing." },
  { value: "all", label: "All", short: "allows all", means: "No sandbox: the agent may change any file and run any command." },
];

/** A job's are the same, but for what would be asked: it is declined. */
const UNATTENDED: Partial<Record<Permissions, string>> = {
  edits: "Files may be changed. Commands that would be asked for are declined: nobody is there.",
};

/** Of an agent that is not there nobody knows whether it asks. */
export const cannotAsk = (agent: Agent | null | undefined): boolean => agent?.asks === false && !agent.problem;

/** What the permissions come to with this agent. */
export const permissionWords = (agent: Agent | null | undefined): readonly PermissionWords[] =>
  cannotAsk(agent) ? OF_ONE_THAT_CANNOT : OF_ONE_THAT_ASKS;

export const jobPermissionWords = (agent: Agent | null | undefined): PermissionWords[] =>
  permissionWords(agent)
    .filter(({ value }) => value !== "ask")
    .map((each) => (cannotAsk(agent) ? each : { ...each, means: UNATTENDED[each.value] ?? each.means }));

export const VISIBILITIES: { value: Visibility; label: string; means: string }[] = [
  { value: "shared", label: "Shared", means: "Agents see each other's turns." },
  { value: "own", label: "Own", means: "An agent sees only what follows another agent's last answer." },
];

export function count(n: number): string {
  if (n < 1000) return String(Math.round(n));
  if (n < 99_950) return `${(n / 1000).toFixed(1).replace(/\.0$/, "")}k`;
  if (n < 999_500) return `${Math.round(n / 1000)}k`;
  return `${(n / 1_000_000).toFixed(1).replace(/\.0$/, "")}M`;
}

export function dollars(usd: number): string {
  const sign = usd < 0 ? "−" : "";
  const value = Math.abs(usd);
  if (value === 0) return "$0";
  if (value < 0.0001) return `${sign}<$0.0001`;
  return `${sign}$${value.toFixed(value < 0.01 ? 4 : value < 1 ? 3 : 2)}`;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

export const times = (n: number): string => (n === 1 ? "once" : `${n.toLocaleString("en")} times`);

export function duration(ms: number): string {
  if (ms < 9_950) return `${(Math.max(0, ms) / 1000).toFixed(1).replace(/\.0$/, "")} s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return twoOf(minutes, "min", seconds % 60, "s");
  return twoOf(Math.floor(minutes / 60), "h", minutes % 60, "min");
}

/** A number of two units, without the one that is nothing. */
const twoOf = (large: number, unit: string, small: number, smaller: string): string =>
  [large && `${large} ${unit}`, small && `${small} ${smaller}`].filter(Boolean).join(" ");

export function age(at: string, now: number): string {
  const minutes = Math.floor((now - Date.parse(at)) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes}m`;
  if (minutes < 60 * 24) return `${Math.floor(minutes / 60)}h`;
  if (minutes < 60 * 24 * 14) return `${Math.floor(minutes / 60 / 24)}d`;
  return new Date(at).toLocaleDateString("en", { day: "numeric", month: "short" });
}

export const moment = (at: string): string =>
  new Date(at).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });

/** All that the model was shown: new, written to the cache, and read from it. */
export const shown = (usage: Usage): number =>
  usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;

export function tookMs(run: Pick<RunNote, "started_at" | "ended_at">): number | null {
  return run.started_at && run.ended_at ? Date.parse(run.ended_at) - Date.parse(run.started_at) : null;
}

export function shortPath(path: string, home: string | undefined): string {
  return home && (path === home || path.startsWith(`${home}/`)) ? `~${path.slice(home.length)}` : path;
}

export const lastName = (path: string): string => path.split("/").filter(Boolean).at(-1) ?? path;

/** A thread's name is a word: it is typed in commands and stands in addresses. */
export const asName = (words: string): string =>
  words
    .normalize("NFKD")
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[-._]+|-+$/g, "")
    .slice(0, 80);
