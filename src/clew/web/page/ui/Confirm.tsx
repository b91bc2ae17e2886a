// A confirmation: one line that says what is about to happen, and the button that does it, once.

import { useLayoutEffect, useRef, useState } from "preact/hooks";

interface Props {
  text: string;
  button: string;
  act: () => Promise<unknown>;
  close: () => void;
}

export function Confirm({ text, button, act, close }: Props) {
  const ref = useRef<HTMLButtonElement>(null);
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => ref.current?.focus(), []);
  const confirm = async (): Promise<void> => {
    setBusy(true);
    await act();
    close();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  };
  return (
    <div class="confirm" role="group" aria-label="Confirm" onKeyDown={onKeyDown}>
      <p data-testid="consequence">{text}</p>
      <div class="row">
        <button class="primary" type="button" ref={ref} disabled={busy} data-testid="confirm-change" onClick={() => void confirm()}>
          {button}
        </button>
        <button type="button" onClick={close}>
          Cancel
        </button>
      </div>
    </div>
  );
}
