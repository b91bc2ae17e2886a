// Keeps a conversation scrolled to its end while the reader is there, and in its place when the reader has scrolled up.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ConversationState, DaemonState } from "../state/reducer.ts";

const NEAR_END_PX = 60;
const ROUNDING_PX = 2;

const READER_EVENTS = ["wheel", "touchmove", "pointerdown", "keydown"] as const;

/** The height of a turn is known only once it is rendered. While a thread opens, its end therefore moves up and down, and
 * the browser scrolls up whenever the content gets shorter. So only the reader can leave the end: not at all before the
 * first input, and later only by scrolling up further than the content got shorter. */
export function useStickToEnd(conversation: ConversationState | null, progress: DaemonState["progress"], atEnd = true) {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const sticks = useRef(atEnd);
  const touched = useRef(false);
  const last = useRef({ top: 0, height: 0, shown: 0 }); // at the last check
  const [away, setAway] = useState(false);
  const onScroll = (): void => {
    const view = box.current;
    if (!view) return;
    const { scrollTop: top, scrollHeight: height, clientHeight: shown } = view;
    const left = height - top - shown;
    const forcedTop = Math.min(last.current.height, height) - Math.max(last.current.shown, shown);
    const scrolledUp = touched.current && top < Math.min(last.current.top, forcedTop) - ROUNDING_PX;
    if (scrolledUp) sticks.current = left <= ROUNDING_PX;
    else if (top > last.current.top && left < NEAR_END_PX) sticks.current = true;
    last.current = { top, height, shown };
    // The browser would keep the text that is read in place when something above it changes. At the end, the end stays.
    view.style.overflowAnchor = sticks.current ? "none" : "";
    setAway(!sticks.current && left >= NEAR_END_PX);
  };
  const toEnd = (): void => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
    sticks.current = true;
    onScroll();
  };
  const follow = (): void => {
    onScroll(); // the reader may have scrolled up since
    if (sticks.current) toEnd();
  };
  useLayoutEffect(follow, [conversation, progress]);
  useEffect(() => {
    const observer = new ResizeObserver(follow);
    if (content.current) observer.observe(content.current);
    if (box.current) observer.observe(box.current);
    const touch = (): void => void (touched.current = true);
    for (const kind of READER_EVENTS) document.addEventListener(kind, touch, { passive: true, capture: true });
    return () => {
      observer.disconnect();
      for (const kind of READER_EVENTS) document.removeEventListener(kind, touch, { capture: true });
    };
  }, []);
  return useMemo(() => ({ box, content, onScroll, toEnd, away }), [away]);
}
