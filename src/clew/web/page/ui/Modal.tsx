// A modal dialog. The browser's own <dialog> traps the focus, closes on Escape and hides the rest from screen readers.

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { closeDialog, page } from "../state/page.ts";
import { useStore } from "../state/store.ts";
import { Close } from "./icons.tsx";

export function Modal({ title, testid, children }: { title: string; testid: string; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = ref.current;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const onClick = (event: MouseEvent): void => {
    if (event.target === ref.current) closeDialog(); // the backdrop belongs to the dialog itself
  };
  return (
    <dialog
      ref={ref}
      aria-labelledby={id}
      data-testid={testid}
      onCancel={(event) => (event.preventDefault(), closeDialog())}
      onMouseDown={onClick}
    >
      <div class="dialog-content">
        <header>
          <h2 id={id}>{title}</h2>
          <button class="quiet" type="button" aria-label="Close" onClick={closeDialog}>
            <Close />
          </button>
        </header>
        {children}
        <DialogError />
      </div>
    </dialog>
  );
}

/** Why the request of the dialog failed, unless the error is about one of its fields. */
function DialogError() {
  const error = useStore(page, (now) => (now.formError && !now.formError.field ? now.formError : null));
  const ref = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => ref.current?.scrollIntoView({ block: "nearest" }), [error]);
  return error ? (
    <p class="form-error" ref={ref} role="alert" data-testid="dialog-problem">
      {error.text} {error.hint}
    </p>
  ) : null;
}
