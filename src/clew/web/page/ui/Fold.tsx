// A disclosure whose content is created when it is opened.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Caret } from "./icons.tsx";

interface Props {
  summary: ComponentChildren;
  children: () => ComponentChildren;
  class: string;
  testid?: string;
  initiallyOpen?: boolean;
}

export function Fold({ summary, children, class: name, testid, initiallyOpen = false }: Props) {
  const [open, setOpen] = useState(initiallyOpen);
  return (
    <details
      class={`fold ${name}`}
      data-testid={testid}
      open={initiallyOpen}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>
        <Caret size={12} />
        {summary}
      </summary>
      {open && children()}
    </details>
  );
}
