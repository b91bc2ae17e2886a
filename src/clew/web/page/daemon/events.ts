// Server-sent events, read with `fetch`: the browser's own EventSource cannot send the page key.

import { Problem, request, UNREACHABLE } from "./http.ts";

export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

/** Splits a stream of text into events. Comments, which keep the connection open, are skipped. */
export class EventParser {
  private rest = "";

  feed(chunk: string): ServerEvent[] {
    const blocks = (this.rest + chunk).split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(eventOf).filter((event): event is ServerEvent => event !== null);
  }
}

function eventOf(block: string): ServerEvent | null {
  const event: ServerEvent = { id: "", event: "message", data: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    const name = line.slice(0, colon);
    if (name === "data") data.push(value);
    else if (name === "id") event.id = value;
    else if (name === "event") event.event = value;
  }
  return data.length > 0 ? { ...event, data: data.join("\n") } : null;
}

const SILENT_AFTER_MS = 45_000; // the daemon says something every 15 seconds

/** The events of one connection. A connection that breaks is an `unreachable` Problem. */
async function* connection(path: string, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const response = await request("GET", path, undefined, undefined, signal);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  try {
    for (;;) {
      const read = await inTime(reader?.read());
      if (!read || read.done) return;
      yield* parser.feed(read.value);
    }
  } catch {
    throw new Problem(0, UNREACHABLE, "Clew does not answer.", "");
  } finally {
    void reader?.cancel().catch(() => undefined);
  }
}

async function inTime<T>(work: Promise<T> | undefined): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new Error("silent")), SILENT_AFTER_MS);
  });
  try {
    return await Promise.race([work, silence]);
  } finally {
    clearTimeout(timer);
  }
}

const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 1_000;

const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

interface Following {
  /** Where to begin; by default with the first event. */
  after?: string;
  /** The address of the events after that one; of all, when it is empty. */
  path: (after: string) => string;
  /** Takes the next event; true: it is the last one. */
  received: (event: ServerEvent) => boolean;
  /** Asked whenever a connection has ended: is there nothing more to follow? */
  isOver?: () => Promise<boolean>;
  signal: AbortSignal;
}

/** Follows events until the last one, over any number of disconnects. Throws the Problem with which the daemon refuses
 * to go on: a 404 when it was restarted and no longer knows what is followed. */
export async function follow(
  { after = "", path, received, isOver = async () => false, signal }: Following,
  connect: (path: string, signal: AbortSignal) => AsyncIterable<ServerEvent> = connection,
  wait: (ms: number) => Promise<void> = sleep,
): Promise<void> {
  let last = after;
  let retryMs = FIRST_RETRY_MS;
  while (!signal.aborted) {
    try {
      for await (const event of connect(path(last), signal)) {
        retryMs = FIRST_RETRY_MS;
        if (event.id) last = event.id;
        if (received(event)) return;
      }
    } catch (problem) {
      if (!(problem instanceof Problem) || !mayPass(problem)) throw problem;
    }
    if (signal.aborted || (await isOver())) return;
    await wait(retryMs);
    retryMs = Math.min(LONGEST_RETRY_MS, retryMs * 2);
  }
}

/** The daemon is down or has too much to do. */
const mayPass = ({ status }: Problem): boolean => status === 0 || status === 503;
