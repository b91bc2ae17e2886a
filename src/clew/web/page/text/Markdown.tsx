// Markdown, block by block. A block whose text has not changed keeps its nodes, so a growing answer can be read, selected
// and searched while it grows. Far from the viewport the plain text stands in: find-in-page finds it all the same.

import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { blocks, nodes, type Block } from "./sanitize.ts";
import { useNear } from "./near.ts";
import { visible } from "./visible.ts";

const Rendered = memo(
  ({ block }: { block: Block }) => {
    const ref = useRef<HTMLDivElement>(null);
    useLayoutEffect(() => {
      const fragment = drawn(block);
      for (const code of fragment.querySelectorAll("pre")) withCopy(code);
      for (const table of fragment.querySelectorAll("table")) scrollable(table);
      ref.current?.replaceChildren(fragment);
    }, [block.raw]);
    return <div class="block" ref={ref} />;
  },
  (before, after) => before.block.raw === after.block.raw,
);

/** Nodes that are safe to show, or the text as it came: no answer may break the page, however it is written. */
function drawn(block: Block): DocumentFragment {
  try {
    return nodes(block);
  } catch {
    const fragment = document.createDocumentFragment();
    fragment.append(visible(block.raw));
    return fragment;
  }
}

function parsed(text: string, typed: boolean): Block[] | null {
  try {
    return blocks(text, typed);
  } catch {
    return null; // nested deeper than the parser can follow, or too much for it
  }
}

function withCopy(pre: HTMLElement): void {
  const frame = document.createElement("div");
  frame.className = "code";
  pre.replaceWith(frame);
  pre.tabIndex = 0; // it scrolls, so the keyboard must reach it
  pre.setAttribute("role", "group"); // no landmark: there may be many
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

function scrollable(table: HTMLElement): void {
  const frame = document.createElement("div");
  frame.className = "table";
  frame.tabIndex = 0;
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", "Table");
  table.replaceWith(frame);
  frame.append(table);
}

export function Markdown({ text, typed = false }: { text: string; typed?: boolean }) {
  const ref = useRef<HTMLDivElement>(null);
  const near = useNear(ref);
  const found = useMemo(() => (near ? parsed(text, typed) : null), [near, text, typed]);
  return (
    <div class={found ? "markdown" : "markdown plain"} ref={ref}>
      {found ? found.map((block, index) => <Rendered key={index} block={block} />) : visible(text)}
      {near && !found && <p class="muted">Shown as it came: it is too much to be laid out.</p>}
    </div>
  );
}

const EVERY_MS = 40;
const SHARE = 4; // a long text takes longer to draw: it is drawn less often, so that the page stays quick

/** A text that grows many times a second, drawn at most twenty-five times. */
export function GrowingMarkdown({ text }: { text: string }) {
  const [drawn, draw] = useState(text);
  const newest = useRef(text);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const begun = useRef(0);
  const tookMs = useRef(0);
  newest.current = text;
  useLayoutEffect(() => {
    if (begun.current > 0) tookMs.current = performance.now() - begun.current;
  }, [drawn]);
  useEffect(() => {
    if (drawn === text || timer.current !== undefined) return;
    timer.current = setTimeout(
      () => {
        timer.current = undefined;
        begun.current = performance.now();
        draw(newest.current);
      },
      begun.current + Math.max(EVERY_MS, SHARE * tookMs.current) - performance.now(),
    );
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  return <Markdown text={drawn} />;
}
