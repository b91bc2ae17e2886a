// Idempotency keys: a request that creates something is carried out once, even when its response was lost. It is sent
// again with the same key, by the page itself and, for a while, by a person who presses the button again.

export const RETRY_DELAYS_MS = [500, 2_000];
export const KEY_LIFETIME_MS = 120_000; // after that, the same request is a new one

interface SentKey {
  key: string;
  sentAt: number;
}

/** The keys of requests that have no response yet. */
export class PendingKeys {
  private readonly sent = new Map<string, SentKey>();

  constructor(
    private readonly newKey: () => string,
    private readonly now: () => number = Date.now,
  ) {}

  keyFor(request: string): string {
    const known = this.sent.get(request);
    if (known && this.now() - known.sentAt < KEY_LIFETIME_MS) return known.key;
    const key = this.newKey();
    this.sent.set(request, { key, sentAt: this.now() });
    return key;
  }

  answered(request: string): void {
    this.sent.delete(request);
  }
}

/** Not `randomUUID`: browsers do not offer it to a page that came over plain HTTP from another machine. */
export const randomKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** The response to `send`, which is retried while nobody answers, or while the daemon still handles the first attempt. */
export async function sendUntilAnswered(send: () => Promise<Response>, wait = sleep): Promise<Response> {
  for (const delayMs of RETRY_DELAYS_MS) {
    try {
      const response = await send();
      if (response.status !== 409 || !response.headers.has("Retry-After")) return response;
    } catch {
      // the daemon is restarting, or the connection broke
    }
    await wait(delayMs);
  }
  return send();
}
