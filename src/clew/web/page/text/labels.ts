// The words for reasons, statuses and options.

import type { Agent, JobStatus, Permissions, RunStatus, Scope, Visibility } from "../daemon/wire.ts";

/** Why a turn started fresh, after "fresh: ", or rewound its session. The reasons are those of docs/decision.md. */
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
  worn_out: "the session was resumed too many times",
  session_missing: "the session's file is missing",
  session_diverged: "the session was continued outside Clew; that part is not in this thread",
  session_damaged: "the session's file was altered",
  cannot_fork: "the agent cannot copy the session up to that turn",
  unconfirmed: "the last run was interrupted, and its session does not show how far it got",
  rejected: "the agent did not know the session",
  overflow: "the conversation did not fit the model's context",
};

export const reasonText = (reason: string | null): string =>
  reason ? (REASONS[reason] ?? reason.replaceAll("_", " ")) : "new session";

/** `rewoundTo` is the number of a turn. A session that was not rewound and has a reason continued in a copy. */
export const resumedText = (reason: string | null, rewoundTo: number | null): string =>
  rewoundTo !== null
    ? `resumed, rewound to turn ${rewoundTo}: ${reasonText(reason)}`
    : reason
      ? `resumed in a copy: ${reasonText(reason)}`
      : "resumed";

export const RUN_STATUS_LABELS: Record<RunStatus, string> = {
  queued: "queued",
  running: "running",
  waiting: "waiting for you",
  answered: "answered",
  cancelled: "stopped",
  timed_out: "timed out",
  failed: "failed",
  interrupted: "interrupted",
};

export const JOB_STATUS_LABELS: Record<JobStatus, string> = {
  queued: "queued",
  running: "running",
  waiting: "waiting",
  blocked: "blocked: log in",
  conflict: "conflict",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
};

export interface Option<V extends string> {
  value: V;
  label: string;
  description: string;
}

export const SCOPES: Option<Scope>[] = [
  { value: "all", label: "All", description: "All uncommitted changes, and new files." },
  { value: "staged", label: "Staged", description: "What the next commit would contain." },
  { value: "unstaged", label: "Unstaged", description: "Changes that are not staged, and new files." },
];

export const VISIBILITIES: Option<Visibility>[] = [
  { value: "shared", label: "Shared", description: "Agents see each other's turns." },
  { value: "own", label: "Own", description: "An agent sees only what follows another agent's last answer." },
];

interface PermissionOption extends Option<Permissions> {
  short: string;
}

const LABELS: Record<Permissions, string> = { ask: "Ask", edits: "Edits", "read-only": "Read-only", all: "All" };

const permission = (value: Permissions, short: string, description: string): PermissionOption => ({
  value,
  label: LABELS[value],
  short,
  description,
});

const IF_AGENT_ASKS: PermissionOption[] = [
  permission("ask", "asks first", "You are asked before the agent changes a file or runs a command."),
  permission("edits", "edits freely", "Files may be changed without asking; you are asked before a command runs."),
  permission("read-only", "read-only", "The agent may read. Everything else is declined."),
  permission("all", "allows all", "You are never asked: the agent may change files and run any command."),
];

/** An agent that cannot ask can only do what was allowed before the run. */
const IF_AGENT_CANNOT_ASK: PermissionOption[] = [
  permission("ask", "reads only", "This agent cannot ask for permission: it can read, but not change anything."),
  permission("edits", "edits, sandboxed", "Files in the directory may be changed; commands run in a sandbox."),
  permission("read-only", "read-only", "The agent can read, but not change anything."),
  permission("all", "allows all", "No sandbox: the agent may change any file and run any command."),
];

/** In a job nobody can be asked, so what would be asked is declined. */
const IN_A_JOB: Partial<Record<Permissions, string>> = {
  edits: "Files may be changed. Commands that need permission are declined, because nobody is there to ask.",
};

/** False for an agent that is not installed: whether it asks is unknown. */
export const cannotAsk = (agent: Agent | null | undefined): boolean => agent?.asks === false && !agent.problem;

export const permissionOptions = (agent: Agent | null | undefined): readonly PermissionOption[] =>
  cannotAsk(agent) ? IF_AGENT_CANNOT_ASK : IF_AGENT_ASKS;

export const jobPermissionOptions = (agent: Agent | null | undefined): PermissionOption[] =>
  permissionOptions(agent)
    .filter(({ value }) => value !== "ask")
    .map((each) => (cannotAsk(agent) ? each : { ...each, description: IN_A_JOB[each.value] ?? each.description }));
