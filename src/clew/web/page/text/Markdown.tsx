// Renders Markdown block by block. A block whose text has not changed keeps its nodes, so a growing answer can be read,
// selected and searched. Far from the viewport the plain text is shown instead, which find-in-page finds as well.

import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useNearViewport } from "../ui/viewport.ts";
import { blocks, toNodes, type Block } from "./sanitize.ts";
import { visible } from "./visible.ts";

const RenderedBlock = memo(
  ({ block }: { block: Block }) => {
    const ref = useRef<HTMLDivElement>(null);
    useLayoutEffect(() => {
      const fragment = safeNodes(block);
      for (const code of fragment.querySelectorAll("pre")) addCopyButton(code);
      for (const table of fragment.querySelectorAll("table")) makeScrollable(table);
      ref.current?.replaceChildren(fragment);
    }, [block.raw]);
    return <div class="block" ref={ref} />;
  },
  (before, after) => before.block.raw === after.block.raw,
);

/** Sanitized nodes, or the raw text when that fails: no answer may break the page. */
function safeNodes(block: Block): DocumentFragment {
  try {
    return toNodes(block);
  } catch {
    const fragment = document.createDocumentFragment();
    fragment.append(visible(block.raw));
    return fragment;
  }
}

function parse(text: string, breaks: boolean): Block[] | null {
  try {
    return blocks(text, breaks);
  } catch {
    return null; // too large or nested too deep for the parser
  }
}

function addCopyButton(pre: HTMLElement): void {
  const frame = document.createElement("div");
  frame.className = "code";
  pre.replaceWith(frame);
  pre.tabIndex = 0; // it scrolls, so it must be reachable with the keyboard
  pre.setAttribute("role", "group"); // not a landmark, because there may be many
  pre.setAttribute("aria-label", "Code");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy-code";
  button.textContent = "Copy";
  button.addEventListener("click", () => {
    void navigator.clipboard?.writeText(pre.textContent ?? "").then(() => {
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
  });
  frame.append(pre, button);
}

function makeScrollable(table: HTMLElement): void {
  const frame = document.createElement("div");
  frame.className = "table";
  frame.tabIndex = 0;
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", "Table");
  table.replaceWith(frame);
  frame.append(table);
}

/** `breaks`: a newline is a line break. */
export function Markdown({ text, breaks = false }: { text: string; breaks?: boolean }) {
  const ref = useRef<HTMLDivElement>(null);
  const near = useNearViewport(ref);
  const parsed = useMemo(() => (near ? parse(text, breaks) : null), [near, text, breaks]);
  return (
    <div class={parsed ? "markdown" : "markdown plain"} ref={ref}>
      {parsed ? parsed.map((block, index) => <RenderedBlock key={index} block={block} />) : visible(text)}
      {near && !parsed && <p class="muted">Shown as plain text: it is too large to format.</p>}
    </div>
  );
}

const MIN_INTERVAL_MS = 40;
const INTERVAL_FACTOR = 4; // rendering takes at most a quarter of the time, so that the page stays responsive

/** A text that grows many times a second: it is rendered at most 25 times a second, a long one less often. */
export function StreamingMarkdown({ text }: { text: string }) {
  const [rendered, render] = useState(text);
  const newest = useRef(text);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const startedAt = useRef(0);
  const tookMs = useRef(0);
  newest.current = text;
  useLayoutEffect(() => {
    if (startedAt.current > 0) tookMs.current = performance.now() - startedAt.current;
  }, [rendered]);
  useEffect(() => {
    if (rendered === text || timer.current !== undefined) return;
    timer.current = setTimeout(
      () => {
        timer.current = undefined;
        startedAt.current = performance.now();
        render(newest.current);
      },
      startedAt.current + Math.max(MIN_INTERVAL_MS, INTERVAL_FACTOR * tookMs.current) - performance.now(),
    );
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  return <Markdown text={rendered} />;
}
