// The operations that the page follows: long calls, such as an export, which the daemon carries out. A dialog that started
// one may be closed; the operation goes on, and a notice says how it ended.

import { useEffect, useState } from "preact/hooks";
import { follow } from "../daemon/events.ts";
import { Problem } from "../daemon/http.ts";
import { operationCalls, type Operation } from "../daemon/operations.ts";
import type { OperationEvent } from "../daemon/wire.ts";
import { attempt, checkRefused, inBackground, notify } from "./page.ts";
import { saveFile } from "./save.ts";
import { Store, useStore } from "./store.ts";

/** An operation with its progress. */
export interface Followed<R = unknown> {
  operation: Operation<R>;
  seq: number; // of the newest event that was applied
  message: string;
  done: number | null;
  total: number | null;
  warnings: readonly string[];
  isCancelling: boolean;
}

export const operations = new Store<Readonly<Record<string, Followed>>>({});

export const isOver = ({ operation }: Followed): boolean => operation.status !== "running";

export const followed = <R>(operation: Operation<R>): Followed<R> => ({
  operation,
  seq: 0,
  message: operation.message,
  done: null,
  total: null,
  warnings: [],
  isCancelling: false,
});

/** The progress after an event. An event that was received before, as happens after a reconnect, changes nothing. */
export function applyEvent(now: Followed, event: OperationEvent): Followed {
  if (event.seq <= now.seq) return now;
  if (event.kind === "warning") return { ...now, seq: event.seq, warnings: [...now.warnings, event.message] };
  return {
    ...now,
    seq: event.seq,
    message: event.message || now.message,
    done: event.done ?? now.done,
    total: event.total ?? now.total,
  };
}

/** An operation that a restart of the daemon ended. */
export const lost = (operation: Operation): Operation => ({
  ...operation,
  status: "failed",
  error: {
    code: "lost",
    message: "Clew was restarted in the meantime, which ended this.",
    hint: "Start it again.",
    secrets: [],
  },
});

const MAX_NAMED = 3;

/** How an operation ended, as a sentence. */
export function endOf({ kind, subjects, status, error }: Operation): string {
  const what = `${nameOf(kind)}${subjects.length > 0 ? ` of ${subjects.slice(0, MAX_NAMED).join(", ")}${subjects.length > MAX_NAMED ? " and others" : ""}` : ""}`;
  if (status === "failed") return `${what} failed${error ? `: ${error.message}` : "."}`;
  return `${what} ${status === "done" ? "is done" : "was cancelled"}.`;
}

const NOUNS: Record<string, string> = { adopt: "adoption", clean: "clean-up", restore: "restoring" };

/** “The adoption” for “adopt”. */
export const nameOf = (kind: string): string => `The ${NOUNS[kind] ?? kind.replaceAll("_", " ")}`;

const put = (next: Followed): void => operations.set({ ...operations.now, [next.operation.id]: next });

function change(id: string, update: (now: Followed) => Followed): void {
  const now = operations.now[id];
  if (now) put(update(now));
}

const shown = new Set<string>(); // the operations that an open dialog or view shows

/** Starts an operation and follows it. Null: it could not be started; the reason is shown. */
export async function begin(starting: Promise<Operation>, cwd?: unknown): Promise<string | null> {
  const operation = await attempt(starting, cwd);
  if (!operation) return null;
  put(followed(operation));
  void followToEnd(operation.id);
  return operation.id;
}

async function followToEnd(id: string): Promise<void> {
  try {
    await follow({
      path: (after) => operationCalls.events(id, after),
      received: ({ data }) => {
        const event = JSON.parse(data) as OperationEvent;
        change(id, (now) => applyEvent(now, event));
        return event.kind === "ended";
      },
      signal: new AbortController().signal, // an operation is followed until it ends
    });
    const operation = await ended(id);
    change(id, (now) => ({ ...now, operation }));
  } catch (problem) {
    checkRefused(problem);
    if (!(problem instanceof Problem) || problem.status !== 404) return;
    change(id, (now) => ({ ...now, operation: lost(now.operation) }));
  }
  const end = operations.now[id];
  if (end && !shown.has(id)) {
    notify(endOf(end.operation), end.operation.error?.hint ?? "", end.operation.status === "failed" ? "problem" : "plain");
  }
}

const RETRY_MS = 500;

/** The operation as it ended. The daemon may be unreachable just then. */
async function ended(id: string): Promise<Operation> {
  for (;;) {
    try {
      return await operationCalls.get(id);
    } catch (problem) {
      if (!(problem instanceof Problem) || problem.status !== 0) throw problem;
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }
}

export async function cancelOperation(id: string): Promise<void> {
  change(id, (now) => ({ ...now, isCancelling: true }));
  try {
    await operationCalls.cancel(id);
  } catch (problem) {
    if (problem instanceof Problem && problem.status === 409) return; // it has just ended
    change(id, (now) => ({ ...now, isCancelling: false }));
    await attempt(Promise.reject(problem));
  }
}

/** Loads the operations of the daemon, and follows those that run: another tab, or this one before a reload, started
 * them. */
export async function refreshOperations(): Promise<void> {
  const { items } = await operationCalls.list();
  for (const operation of items) {
    const known = operations.now[operation.id];
    if (known && !isOver(known)) continue; // it is followed
    put({ ...(known ?? followed(operation)), operation });
    if (operation.status === "running") void followToEnd(operation.id);
  }
}

/** Saves the file that an operation made. */
export async function download({ id, file }: Operation): Promise<void> {
  const content = file && (await attempt(operationCalls.file(id)));
  if (content) saveFile(file.name, content);
}

export interface OneOperation<R> {
  followed: Followed<R> | null; // null: nothing was started
  busy: boolean; // it is being started, or runs
  start: (starting: Promise<Operation<R>>, cwd?: unknown) => Promise<void>;
  forget: () => void;
}

/** The one operation of a dialog or view. `onDone` is called once with its result. */
export function useOperation<R>(onDone: (result: R, operation: Operation<R>) => void = () => undefined): OneOperation<R> {
  const [id, setId] = useState<string | null>(null);
  const [starting, setStarting] = useState(false);
  const now = useStore(operations, (all) => (id ? (all[id] ?? null) : null)) as Followed<R> | null;
  const isDone = now?.operation.status === "done";
  useEffect(() => {
    if (!id) return undefined;
    shown.add(id);
    return () => void shown.delete(id);
  }, [id]);
  useEffect(() => {
    if (isDone && now?.operation.result) onDone(now.operation.result, now.operation);
  }, [isDone]);
  return {
    followed: now,
    busy: starting || (now !== null && !isOver(now)),
    start: async (work, cwd) => {
      setStarting(true);
      const begun = await begin(work, cwd);
      setStarting(false);
      setId(begun);
    },
    forget: () => setId(null),
  };
}

/** For the start of the page. */
export const findOperations = (): Promise<void> => inBackground(refreshOperations());
