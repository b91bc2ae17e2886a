// The one WebSocket. It says what it hears and whether it is there; after a break it comes back by itself, soon at
// first and then about once a second.

import { pageKey } from "./keep.ts";
import type { LiveMessage } from "./wire.ts";

export interface Listener {
  /** The daemon said hello: fetch, then watch. `again` after a break. */
  greeted(again: boolean): void;
  heard(message: LiveMessage): void;
  lost(): void;
  /** What the page has heard last. */
  version(): number;
}

const FIRST_WAIT_MS = 60;
const LONGEST_WAIT_MS = 1000;
const PING_EVERY_MS = 15_000;
const PONG_WITHIN_MS = 10_000;

export class Live {
  private socket: WebSocket | null = null;
  private waitMs = FIRST_WAIT_MS;
  private greetings = 0;
  private pinging: ReturnType<typeof setInterval> | undefined;
  private ponging: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly listener: Listener) {}

  connect(): void {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const address = `${scheme}://${location.host}/api/live?after=${this.listener.version()}`;
    const socket = new WebSocket(address, ["clew", `clew-key.${pageKey.get()}`]);
    this.socket = socket;
    socket.onmessage = (message) => this.receive(JSON.parse(String(message.data)) as LiveMessage);
    socket.onclose = () => this.closed(socket);
    this.pinging = setInterval(() => this.ping(), PING_EVERY_MS);
  }

  /** Another try now: the network is back, or the tab is looked at again. */
  hurry(): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.ping();
  }

  watch(thread: string | null, after: Record<string, number>): void {
    this.send({ type: "watch", thread, after });
  }

  private send(message: unknown): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private ping(): void {
    this.send({ type: "ping" });
    clearTimeout(this.ponging);
    this.ponging = setTimeout(() => this.socket?.close(), PONG_WITHIN_MS); // a dead line closes without a word
  }

  private receive(message: LiveMessage): void {
    clearTimeout(this.ponging);
    if (message.type === "pong") return;
    if (message.type === "hello") {
      this.waitMs = FIRST_WAIT_MS;
      this.listener.greeted(this.greetings++ > 0);
      return;
    }
    this.listener.heard(message);
  }

  private closed(socket: WebSocket): void {
    if (socket !== this.socket) return;
    clearInterval(this.pinging);
    clearTimeout(this.ponging);
    this.socket = null;
    this.listener.lost();
    setTimeout(() => this.connect(), this.waitMs);
    this.waitMs = Math.min(LONGEST_WAIT_MS, this.waitMs * 2);
  }
}
