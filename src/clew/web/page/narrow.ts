// Is there room for one thing only: the list, or what is open? The same width stands in the style sheets.

import { useEffect, useState } from "preact/hooks";

const query = (): MediaQueryList => window.matchMedia("(max-width: 759px)");

export const isNarrow = (): boolean => query().matches;

export function useNarrow(): boolean {
  const [narrow, set] = useState(isNarrow);
  useEffect(() => {
    const media = query();
    const changed = (): void => set(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  return narrow;
}
