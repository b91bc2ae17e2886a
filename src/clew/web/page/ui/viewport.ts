// What the viewport shows: which elements have been near it, and whether it is as narrow as a phone.

import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";

const MARGIN = "1200px 0px";
const listeners = new WeakMap<Element, () => void>();
let observer: IntersectionObserver | null = null;

function observe(element: Element, onNear: () => void): () => void {
  observer ??= new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting) listeners.get(target)?.();
    },
    // Without `scrollMargin`, a scrolling element inside the page would cut the root's margin off.
    { rootMargin: MARGIN, scrollMargin: MARGIN },
  );
  listeners.set(element, onNear);
  observer.observe(element);
  return () => {
    listeners.delete(element);
    observer?.unobserve(element);
  };
}

/** Whether the element has ever been near the viewport: what was rendered once is kept. */
export function useNearViewport(ref: RefObject<Element | null>): boolean {
  const [near, setNear] = useState(false);
  useEffect(() => {
    if (near || !ref.current) return undefined;
    return observe(ref.current, () => setNear(true));
  }, [near]);
  return near;
}

const narrowQuery = (): MediaQueryList => window.matchMedia("(max-width: 759px)"); // the same width is in the styles

/** Whether there is only room for either the sidebar or the open view. */
export const isNarrow = (): boolean => narrowQuery().matches;

export function useIsNarrow(): boolean {
  const [narrow, setNarrow] = useState(isNarrow);
  useEffect(() => {
    const query = narrowQuery();
    const onChange = (): void => setNarrow(query.matches);
    query.addEventListener("change", onChange);
    return () => query.removeEventListener("change", onChange);
  }, []);
  return narrow;
}
