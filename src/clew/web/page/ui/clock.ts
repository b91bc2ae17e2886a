// The current time, for texts such as "3m" that change while they are shown.

import { useEffect, useState } from "preact/hooks";

export function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, []);
  return Math.max(now, Date.now());
}

/** Precise enough for ages in minutes. */
export const useMinute = (): number => useNow(30_000);
