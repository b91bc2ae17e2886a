// A request that makes something is carried out once, also when its answer was lost: it is sent again with the same key, by
// the page itself and, for a while, by a person who presses the button again.

export const WAITS_MS = [500, 2_000]; // before each further try
export const KEPT_MS = 120_000; // after that the same words are meant anew

interface Tried {
  key: string;
  at: number;
}

/** Requests that nobody has answered. */
export class Unanswered {
  private readonly tried = new Map<string, Tried>();

  constructor(
    private readonly newKey: () => string,
    private readonly now: () => number = Date.now,
  ) {}

  keyFor(request: string): string {
    const known = this.tried.get(request);
    if (known && this.now() - known.at < KEPT_MS) return known.key;
    const key = this.newKey();
    this.tried.set(request, { key, at: this.now() });
    return key;
  }

  answered(request: string): void {
    this.tried.delete(request);
  }
}

/** Not `randomUUID`: a page that came over plain HTTP from another machine has none. */
export const randomKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** The answer to `send`, which is tried again while nobody answers, or while the first try is still being answered. */
export async function untilAnswered(send: () => Promise<Response>, wait = sleep): Promise<Response> {
  for (const ms of WAITS_MS) {
    try {
      const response = await send();
      if (response.status !== 409 || !response.headers.has("Retry-After")) return response;
    } catch {
      // the daemon is restarting, or the connection broke
    }
    await wait(ms);
  }
  return send();
}
