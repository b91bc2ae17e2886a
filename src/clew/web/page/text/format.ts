// Numbers, durations, dates, paths and names as the page writes them.

import type { RunSummary, Usage } from "../daemon/wire.ts";

export function count(n: number): string {
  if (n < 1000) return String(Math.round(n));
  if (n < 99_950) return `${(n / 1000).toFixed(1).replace(/\.0$/, "")}k`;
  if (n < 999_500) return `${Math.round(n / 1000)}k`;
  return `${(n / 1_000_000).toFixed(1).replace(/\.0$/, "")}M`;
}

export function dollars(usd: number): string {
  const sign = usd < 0 ? "−" : "";
  const value = Math.abs(usd);
  if (value === 0) return "$0";
  if (value < 0.0001) return `${sign}<$0.0001`;
  return `${sign}$${value.toFixed(value < 0.01 ? 4 : value < 1 ? 3 : 2)}`;
}

export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  if (n < 999_500) return `${Math.round(n / 1000)} KB`;
  return `${(n / 1_000_000).toFixed(1).replace(/\.0$/, "")} MB`;
}

export const plural = (n: number, noun: string): string => `${n.toLocaleString("en")} ${n === 1 ? noun : `${noun}s`}`;

export const times = (n: number): string => (n === 1 ? "once" : `${n.toLocaleString("en")} times`);

export function duration(ms: number): string {
  if (ms < 9_950) return `${(Math.max(0, ms) / 1000).toFixed(1).replace(/\.0$/, "")} s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return twoUnits(minutes, "min", seconds % 60, "s");
  return twoUnits(Math.floor(minutes / 60), "h", minutes % 60, "min");
}

/** A value in two units, without a unit that is zero. */
const twoUnits = (large: number, unit: string, small: number, smaller: string): string =>
  [large && `${large} ${unit}`, small && `${small} ${smaller}`].filter(Boolean).join(" ");

export function age(at: string, now: number): string {
  const minutes = Math.floor((now - Date.parse(at)) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes}m`;
  if (minutes < 60 * 24) return `${Math.floor(minutes / 60)}h`;
  if (minutes < 60 * 24 * 14) return `${Math.floor(minutes / 60 / 24)}d`;
  return new Date(at).toLocaleDateString("en", { day: "numeric", month: "short" });
}

export const dateTime = (at: string): string =>
  new Date(at).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });

/** All tokens that the model was shown: new ones, and those written to or read from its cache. */
export const shownTokens = (usage: Usage): number =>
  usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;

/** How long a run took; null while it is not over. */
export function durationMs(run: Pick<RunSummary, "started_at" | "ended_at">): number | null {
  return run.started_at && run.ended_at ? Date.parse(run.ended_at) - Date.parse(run.started_at) : null;
}

/** A path below the home directory starts with ~. */
export function shortPath(path: string, home: string | undefined): string {
  return home && (path === home || path.startsWith(`${home}/`)) ? `~${path.slice(home.length)}` : path;
}

export const baseName = (path: string): string => path.split("/").filter(Boolean).at(-1) ?? path;

/** A name for a thread: it is typed in commands, and it is part of addresses. */
export const slug = (text: string): string =>
  text
    .normalize("NFKD")
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[-._]+|-+$/g, "")
    .slice(0, 80);

/** A value that may be anything, as text. */
export const asText = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? String(value));
