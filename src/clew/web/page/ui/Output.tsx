// Output of a program, or other preformatted text from outside.

import { visible } from "../text/visible.ts";

export const Output = ({ label, text, failed = false }: { label: string; text: string; failed?: boolean }) => (
  <pre class={failed ? "output failed" : "output"} tabIndex={0} role="region" aria-label={label}>
    {visible(text)}
  </pre>
);
