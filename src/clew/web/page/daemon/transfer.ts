// Exports, imports, remotes and archives: the calls.

import { call, part, thread, upload } from "./http.ts";
import type {
  ArchivedThread,
  ArchiveList,
  ArchiveRequest,
  CleanOperation,
  CleanRequest,
  ExportOperation,
  ExportRequest,
  ImportOperation,
  PullOperation,
  PullRequest,
  PushOperation,
  PushRequest,
  RemoteRequest,
  RemoteThreads,
  RestoreOperation,
} from "./wire.ts";

export const transferCalls = {
  export: (id: string, body: ExportRequest) => call<ExportOperation>("POST", `${thread(id)}/export`, body),
  import: (form: FormData) => upload<ImportOperation>("/api/imports", form),
  push: (body: PushRequest) => call<PushOperation>("POST", "/api/remotes/push", body),
  pull: (body: PullRequest) => call<PullOperation>("POST", "/api/remotes/pull", body),
  remoteThreads: (body: RemoteRequest) => call<RemoteThreads>("POST", "/api/remotes/list", body),
  archives: () => call<ArchiveList>("GET", "/api/archives"),
  archive: (id: string) => call<ArchivedThread>("POST", "/api/archives", { thread: id } satisfies ArchiveRequest),
  restore: (file: string) => call<RestoreOperation>("POST", `/api/archives/${part(file)}/restore`),
  clean: (body: CleanRequest) => call<CleanOperation>("POST", "/api/archives/clean", body),
};
