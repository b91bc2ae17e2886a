// Where the reader is: what has been near the viewport, and what is to have the focus. What has once been near stays so:
// what was rendered is kept.

import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";

const MARGIN = "1200px 0px";
const waiting = new WeakMap<Element, () => void>();
let observer: IntersectionObserver | null = null;

function observe(element: Element, came: () => void): () => void {
  observer ??= new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting) waiting.get(target)?.();
    },
    { rootMargin: MARGIN, scrollMargin: MARGIN }, // what scrolls inside the page would cut the first one off
  );
  waiting.set(element, came);
  observer.observe(element);
  return () => {
    waiting.delete(element);
    observer?.unobserve(element);
  };
}

/** As a ref: the field that is to be written in as soon as it is there. */
export const focused = (element: HTMLElement | null): void => element?.focus();

export function useNear(ref: RefObject<Element | null>): boolean {
  const [near, come] = useState(false);
  useEffect(() => {
    if (near || !ref.current) return undefined;
    return observe(ref.current, () => come(true));
  }, [near]);
  return near;
}
