// Exports, imports, remotes and archives: what the daemon takes and returns.

import { call, part, thread, upload, type Body } from "./http.ts";
import type { Failure, FoundSecret, Operation } from "./operations.ts";

export interface ExportedFile {
  file: string;
  size_bytes: number;
  threads: string[];
  turns: number;
  encrypted: boolean;
  redacted: number | null; // null: not redacted
  secrets: FoundSecret[];
  sessions: { agent: string; model: string | null; included: boolean; why: string | null }[];
}

interface ArrivedSession {
  agent: string;
  model: string | null;
  resumable: boolean;
  why: string | null;
}

export interface Import {
  dry_run: boolean;
  threads: { name: string; id: string; cwd: string }[];
  turns: number;
  new_ids: boolean;
  sessions: ArrivedSession[];
  notes: string[];
}

export interface FailedThread {
  name: string;
  state: "conflict" | "failed";
  error: Failure & { secrets?: FoundSecret[] };
}

export interface PushedThread {
  name: string;
  state: "pushed" | "unchanged" | "behind";
  number: number | null;
  turns: number;
  sent_bytes: number;
  secrets: FoundSecret[];
  error: null;
}

export interface PulledThread {
  name: string;
  state: "new" | "updated" | "unchanged" | "ahead";
  number: number;
  turns: number;
  signer: string | null;
  sessions: ArrivedSession[];
  notes: string[];
  error: null;
}

interface Transfer<T> {
  url: string;
  encrypted: boolean;
  dry_run: boolean;
  threads: (T | FailedThread)[];
}

export type Push = Transfer<PushedThread>;
export type Pull = Transfer<PulledThread>;

export interface RemoteThread {
  name: string;
  id: string;
  kind: string;
  agent: string;
  turns: number;
  number: number;
  size_bytes: number;
  pushed_at: string;
}

export interface RemoteThreads {
  url: string;
  encrypted: boolean;
  threads: RemoteThread[];
  problems: string[];
}

export interface ArchivedThread {
  thread: string;
  others: string[];
  kind: string;
  turns: number;
  archive: string | null;
}

export interface ArchiveFile {
  name: string;
  kind: string | null;
  thread_id: string | null;
  archived_at: string;
  turns: number | null;
  size_bytes: number;
  file: string;
  problem: string | null;
}

export interface RestoredArchive {
  threads: { name: string; id: string; kind: string }[];
  was: string;
  turns: number;
  resumable: number;
  copy: boolean;
  narrowed: boolean;
}

export interface Cleanup {
  dry_run: boolean;
  archived: ArchivedThread[];
  removed: string[];
  kept: { thread: string; why: string }[];
}

export const transferCalls = {
  export: (id: string, body: Body) => call<Operation<ExportedFile>>("POST", `${thread(id)}/export`, body),
  import: (form: FormData) => upload<Operation<Import>>("/api/imports", form),
  push: (body: Body) => call<Operation<Push>>("POST", "/api/remotes/push", body),
  pull: (body: Body) => call<Operation<Pull>>("POST", "/api/remotes/pull", body),
  remoteThreads: (body: Body) => call<RemoteThreads>("POST", "/api/remotes/list", body),
  archives: () => call<{ items: ArchiveFile[] }>("GET", "/api/archives"),
  archive: (id: string) => call<ArchivedThread>("POST", "/api/archives", { thread: id }),
  restore: (file: string) => call<Operation<RestoredArchive>>("POST", `/api/archives/${part(file)}/restore`),
  clean: (body: Body) => call<Operation<Cleanup>>("POST", "/api/archives/clean", body),
};
