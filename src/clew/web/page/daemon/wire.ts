// The records that the daemon sends, as docs/http.md describes them.

export type RunStatus =
  | "queued"
  | "running"
  | "waiting"
  | "answered"
  | "cancelled"
  | "timed_out"
  | "failed"
  | "interrupted";

export type Permissions = "ask" | "edits" | "read-only" | "all";
export type Visibility = "shared" | "own";

export interface Thread {
  id: string;
  name: string;
  cwd: string;
  agent: string;
  model: string | null;
  permissions: Permissions;
  trust: "user" | "project";
  visibility: Visibility;
  instructions: string | null;
  kind: string;
  origin: { how: string; of: { id: string; name: string }[]; round: number | null } | null;
  created_at: string;
  updated_at: string;
  version: number;
  turns: number;
  cost_usd: number;
  live: { run_id: string; status: RunStatus } | null;
  questions: number;
  last_text: string;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_read_input_tokens: number;
  cache_creation_input_tokens: number;
}

/** The part of a run that is shown with its turn. */
export interface RunSummary {
  id: string;
  status: RunStatus;
  session_resumed: boolean | null;
  reason: string | null;
  fallback: boolean;
  usage: Usage;
  cost_usd: number | null;
  estimate_usd: number | null;
  prompt_chars: number | null;
  transcript_chars: number | null;
  started_at: string | null;
  ended_at: string | null;
  error: { code?: string | null; message: string; hint?: string | null } | null;
  resets_at: string | null; // when the usage limit that ended the run resets, if the agent reported it
  stderr_tail: string;
}

export interface Turn {
  id: string;
  position: number;
  role: "user" | "assistant";
  text: string;
  agent: string | null;
  model: string | null;
  partial: boolean;
  revision: number;
  created_at: string;
  run_id: string | null;
  run: RunSummary | null; // for a prompt: the run that ended without answering it
  steps: number;
}

export interface Run extends RunSummary {
  thread_id: string;
  kind: string;
  belongs_to: { kind: "job" | "review" | "pair"; id: string; name: string | null } | null;
  agent: string;
  model: string | null;
  prompt: string;
  prompt_turn_id: string | null;
  answer_turn_id: string | null;
  session_id: string | null;
  outcome: string | null;
  question: Question | null;
  held: boolean; // queued until a person sends it
  not_before: string | null; // queued until a usage limit has reset
  cancel_requested: boolean;
  last_seq: number;
  created_at: string;
}

export interface Question {
  id: string;
  run_id: string;
  thread_id: string;
  tool: string;
  input: Record<string, unknown>;
  is_form: boolean;
  state: "open" | "answered" | "withdrawn";
  asked_at: string;
  answered_at: string | null;
  allowed: boolean | null;
  live: boolean;
}

export interface View {
  thread: Thread;
  turns: Turn[];
  more: boolean;
  runs: Run[];
  questions: Question[];
  version: number;
}

export interface RunEvent {
  seq: number;
  at: string;
  kind: string;
  body: Record<string, unknown>;
}

export interface ThreadsResponse {
  items: Thread[];
  total: number;
  version: number;
}

export interface Forecast {
  cached_tokens: number;
  new_tokens: number;
  cost_usd: number | null;
}

export interface Explanation {
  thread: string;
  new_thread: boolean;
  agent: string;
  model: string | null;
  resumes: boolean;
  reason: string | null;
  words: string;
  session_id: string | null;
  copies: boolean;
  prompt: string | null;
  prompt_chars: number;
  turns_sent: number;
  turns_left_out: number;
  standing: string | null;
  transcript_chars: number;
  held_tokens: number | null;
  held_is_measured: boolean;
  is_cached: boolean;
  expected: Forecast;
  with_transcript: Forecast | null;
  waits_for: string | null;
  unfinished: string | null;
}

export interface SessionPreview extends Explanation {
  after_change: { edit: string; truncate: string; retry: string } | null;
}

export interface Agent {
  name: string;
  path: string | null;
  source: string | null;
  version: string | null;
  product: string | null;
  resumes: boolean | null;
  asks: boolean | null;
  problem: string | null;
  hint: string | null;
  default_model: string | null;
  models: string[];
}

export type JobStatus = "queued" | "running" | "waiting" | "blocked" | "conflict" | "succeeded" | "failed" | "cancelled";

export interface Job {
  id: string;
  status: JobStatus;
  runs: number;
  resume_count: number;
  session_id: string | null;
  reason: string | null;
  outcome: string | null;
  result: string | null;
  error: { code: string | null; message: string; hint: string | null } | null;
  stderr_tail: string;
  conflicts: string[];
  prompt: string;
  cwd: string;
  agent: string;
  model: string | null;
  permissions: Permissions;
  key: string | null;
  priority: number; // 1 is the most urgent
  checkpoint: boolean;
  limits: {
    timeout_s: number | null;
    retries: number;
    max_resumes: number;
    max_runs: number;
    max_age_s: number | null;
    deadline_at: string | null;
  };
  tries: number;
  thread_id: string;
  thread: string;
  run_id: string | null;
  worker: string | null;
  cancel_requested: boolean;
  usage: Usage;
  cost_usd: number;
  created_at: string;
  not_before: string | null;
  started_at: string | null;
  wake_at: string | null;
  ended_at: string | null;
  no_worker: string | null; // what to do, when the job waits and no worker is running
}

/** The progress of a job: one complete message of the agent. */
export interface Marker {
  number: number;
  run: number | null;
  run_id: string | null;
  message_id: string | null;
  at: string;
  text: string;
}

export interface JobDetail extends Job {
  markers: Marker[];
}

export interface JobsResponse {
  items: Job[];
  workers: number;
}

export type Severity = "critical" | "high" | "medium" | "low" | "info";
export type FindingState = "open" | "fixed" | "withdrawn";
export type Scope = "all" | "staged" | "unstaged";
export type RoundStatus = "running" | "done" | "failed";

export interface Finding {
  id: string;
  severity: Severity;
  file: string | null;
  line: number | null; // in the file as of that round
  title: string;
  detail: string;
  suggestion: string;
  round: number;
  state: FindingState;
  state_round: number;
  note: string;
}

export interface FileChange {
  path: string;
  status: string;
  added: number | null; // null: binary
  removed: number | null;
  old_path: string | null;
  left_out: string | null;
}

export interface Round {
  id: string; // of the review
  round: number;
  status: RoundStatus;
  agent: string;
  model: string | null;
  session_resumed: boolean;
  reason: string | null;
  fallback: boolean;
  summary: string | null;
  findings: Finding[];
  earlier: { id: string; state: FindingState; note: string }[];
  message: string;
  files: FileChange[];
  changed_since: string[];
  run_id: string | null;
  runs: number;
  usage: Usage;
  cost_usd: number;
  error: { code?: string | null; message: string; hint?: string | null } | null;
  started_at: string;
  ended_at: string | null;
}

export interface ReviewSummary {
  id: string;
  status: RoundStatus | null;
  round: number;
  cwd: string;
  scope: Scope;
  base: string | null;
  paths: string[];
  focus: string;
  agent: string;
  model: string | null;
  thread_id: string;
  imported_from: string | null;
  open: number;
  open_by_severity: Partial<Record<Severity, number>>;
  cost_usd: number;
  created_at: string;
}

export interface Review extends ReviewSummary {
  findings: Finding[]; // each in its current state
  rounds: Round[];
}

export interface HookEvent {
  id: string;
  forge: string;
  kind: string;
  repo: string;
  number: number | null;
  branch: string | null;
  actor: string;
  title: string;
  state: "received" | "dispatched" | "ignored" | "failed";
  why: string | null;
  jobs: string[];
  received_at: string;
  done_at: string | null;
}

export interface HookSession {
  key: string;
  agent: string;
  repo: string;
  number: number;
  state: "running" | "resumable" | "fresh";
  session_id: string | null;
  thread_id: string;
  last_event: HookEvent | null;
  used_at: string;
}

export interface HookSettings {
  is_used: boolean;
  work: number;
  rules: { agent: string; events: string[] }[];
  forges: { forge: string; has_secret: boolean; has_token: boolean }[];
}

export interface Settings {
  agent: string;
  model: string | null;
  permissions: Permissions;
  visibility: Visibility;
  roots: string[];
  home: string;
  cwd: string; // the default directory of a new thread
  version: string;
}

export interface Stats {
  runs: number;
  resumed: number;
  resume_rate: number | null;
  fresh: Record<string, number>;
  outcomes: Record<string, number>;
  fallbacks: number;
  usage: Usage;
  cost_usd: number;
  unpriced_runs: number; // runs that used tokens, but the agent reported no price
  transcript_usd: number;
  saved_usd: number;
  saved_share: number | null;
  estimated_runs: number;
  plain_resume_usd: number;
  plain_resume_runs: number;
  by_day: DayStats[];
  by_turn: TurnStats[];
}

export interface DayStats {
  day: string;
  runs: number;
  resumed: number;
  cost_usd: number;
  transcript_usd: number;
  plain_resume_usd: number;
  shown_tokens: number;
  output_tokens: number;
}

export interface TurnStats {
  run_id: string;
  at: string;
  agent: string;
  model: string | null;
  session_resumed: boolean | null;
  reason: string | null;
  shown_tokens: number;
  cache_read_tokens: number;
  new_tokens: number; // shown to the model, and not read from its cache
  transcript_tokens: number | null;
  transcript_new_tokens: number;
  cost_usd: number | null;
  estimate_usd: number | null;
  plain_resume_usd: number | null;
}

export type LiveMessage =
  | { type: "hello"; version: number; daemon: string }
  | { type: "changed"; version: number; threads: Thread[]; deleted: string[] }
  | { type: "events"; thread: string; run: string; events: RunEvent[] }
  | { type: "pong" };

/** Queued, and not about to start: it waits for a person, or for a usage limit to reset. */
export const isOnHold = (run: Run): boolean => run.status === "queued" && (run.held || run.not_before !== null);

export const isRunning = (status: RunStatus): boolean => status === "running" || status === "waiting";
export const isActive = (status: RunStatus): boolean => status === "queued" || isRunning(status);
