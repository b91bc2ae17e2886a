// One thing that cannot be shown must not take its neighbours along: it is told in a line, with its text as it came.

import { Component, type ComponentChildren } from "preact";
import { asText } from "./fields.ts";
import { visible } from "./visible.ts";

interface Guarded {
  of?: unknown; // when it is another one, showing it is tried again
  raw?: unknown; // what it is made from
  children: ComponentChildren;
}

export class Guard extends Component<Guarded, { failed: boolean }> {
  override state = { failed: false };

  static override getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override componentDidCatch(error: unknown): void {
    console.error(error);
  }

  override componentDidUpdate(before: Guarded): void {
    if (this.state.failed && before.of !== this.props.of) this.setState({ failed: false });
  }

  override render() {
    if (!this.state.failed) return this.props.children;
    const text = rawText(this.props.raw);
    return (
      <div class="broken" data-testid="broken" role="group" aria-label="Could not be shown">
        <p class="note warning">This could not be shown.{text && " As it came:"}</p>
        {text && (
          <pre class="output" tabIndex={0} role="region" aria-label="As it came">
            {visible(text)}
          </pre>
        )}
      </div>
    );
  }
}

function rawText(raw: unknown): string {
  if (raw == null) return "";
  try {
    return asText(raw);
  } catch {
    return "";
  }
}
