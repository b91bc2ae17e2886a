// A button that opens a menu. Arrow keys, Home, End and letters move in it; Escape and a click elsewhere close it.

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface MenuItem {
  label: string;
  testid: string;
  act: () => void;
  danger?: boolean;
}

interface Props {
  label: string;
  testid: string;
  items: readonly MenuItem[];
  children: ComponentChildren; // of the button
}

export function Menu({ label, testid, items, children }: Props) {
  const [open, setOpen] = useState(false);
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const entries = (): HTMLElement[] => [...(list.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
  useLayoutEffect(() => {
    if (open) entries()[0]?.focus();
  }, [open]);
  const close = (): void => {
    button.current?.focus();
    setOpen(false);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!open) return;
    if (event.key === "Tab") setOpen(false);
    const next = event.key === "Escape" ? null : target(event.key, entries());
    if (event.key !== "Escape" && !next) return;
    event.preventDefault();
    event.stopPropagation(); // Escape must not stop the run
    if (next) next.focus();
    else close();
  };
  return (
    <div
      class="menu"
      onKeyDown={onKeyDown}
      onFocusOut={(event) => {
        if (!(event.relatedTarget instanceof Node && event.currentTarget.contains(event.relatedTarget))) setOpen(false);
      }}
    >
      <button
        class="quiet"
        type="button"
        ref={button}
        data-testid={testid}
        title={label}
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        onMouseDown={(event) => event.preventDefault()} // keeps the focus where it is, so that a click can close the menu
        onClick={() => (open ? close() : setOpen(true))}
      >
        {children}
      </button>
      {open && (
        <ul id={id} ref={list} role="menu" aria-label={label}>
          {items.map((item) => (
            <li key={item.testid} role="none">
              <button
                class={item.danger ? "quiet danger" : "quiet"}
                type="button"
                role="menuitem"
                tabIndex={-1}
                data-testid={item.testid}
                onClick={() => {
                  close();
                  item.act();
                }}
              >
                {item.label}
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** Which entry a key leads to; undefined: the key means nothing here. */
function target(key: string, entries: HTMLElement[]): HTMLElement | undefined {
  const at = entries.indexOf(document.activeElement as HTMLElement);
  if (key === "ArrowDown") return entries[(at + 1) % entries.length];
  if (key === "ArrowUp") return entries[(at - 1 + entries.length) % entries.length];
  if (key === "Home") return entries[0];
  if (key === "End") return entries.at(-1);
  if (!/^[a-z]$/i.test(key)) return undefined;
  const later = [...entries.slice(at + 1), ...entries.slice(0, at + 1)];
  return later.find((entry) => entry.textContent?.toLowerCase().startsWith(key.toLowerCase()));
}
