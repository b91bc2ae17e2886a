// The time, for words like "3m" that grow old on the screen.

import { useEffect, useState } from "preact/hooks";

export function useNow(everyMs: number): number {
  const [now, tick] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => tick(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, []);
  return Math.max(now, Date.now());
}

export const useMinute = (): number => useNow(30_000);
