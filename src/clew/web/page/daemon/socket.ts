// The page's one WebSocket. It reports what it receives and whether it is connected. After a disconnect it reconnects by
// itself: soon at first, then about once a second.

import { pageKey } from "../state/storage.ts";
import type { LiveMessage } from "./wire.ts";

interface SocketListener {
  /** The daemon said hello: fetch, then watch. `again`: this is a reconnect. */
  connected(again: boolean): void;
  received(message: LiveMessage): void;
  disconnected(): void;
  /** The version of the newest change that the page knows. */
  version(): number;
}

const FIRST_RETRY_MS = 60;
const LONGEST_RETRY_MS = 1000;
const PING_EVERY_MS = 15_000;
const PONG_TIMEOUT_MS = 10_000;

export class LiveSocket {
  private socket: WebSocket | null = null;
  private retryMs = FIRST_RETRY_MS;
  private connections = 0;
  private pingTimer: ReturnType<typeof setInterval> | undefined;
  private pongTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly listener: SocketListener) {}

  connect(): void {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const address = `${scheme}://${location.host}/api/live?after=${this.listener.version()}`;
    const socket = new WebSocket(address, ["clew", `clew-key.${pageKey.get()}`]);
    this.socket = socket;
    socket.onmessage = (message) => this.receive(JSON.parse(String(message.data)) as LiveMessage);
    socket.onclose = () => this.closed(socket);
    this.pingTimer = setInterval(() => this.ping(), PING_EVERY_MS);
  }

  /** Checks the connection now, because the tab became visible again. */
  check(): void {
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
    clearTimeout(this.pongTimer);
    this.pongTimer = setTimeout(() => this.socket?.close(), PONG_TIMEOUT_MS); // a dead connection reports nothing itself
  }

  private receive(message: LiveMessage): void {
    clearTimeout(this.pongTimer);
    if (message.type === "pong") return;
    if (message.type === "hello") {
      this.retryMs = FIRST_RETRY_MS;
      this.listener.connected(this.connections++ > 0);
      return;
    }
    this.listener.received(message);
  }

  private closed(socket: WebSocket): void {
    if (socket !== this.socket) return;
    clearInterval(this.pingTimer);
    clearTimeout(this.pongTimer);
    this.socket = null;
    this.listener.disconnected();
    setTimeout(() => this.connect(), this.retryMs);
    this.retryMs = Math.min(LONGEST_RETRY_MS, this.retryMs * 2);
  }
}
