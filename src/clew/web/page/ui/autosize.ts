// A text area that grows with its text.

import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

const MAX_SHARE_OF_WINDOW = 0.4;

export function useAutosize(area: RefObject<HTMLTextAreaElement | null>, text: string): void {
  useLayoutEffect(() => {
    const field = area.current;
    if (!field) return;
    const frame = field.parentElement;
    if (frame) frame.style.height = `${frame.offsetHeight}px`; // what is above must not move while the text is measured
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, window.innerHeight * MAX_SHARE_OF_WINDOW)}px`;
    if (frame) frame.style.height = "";
  }, [text]);
}
