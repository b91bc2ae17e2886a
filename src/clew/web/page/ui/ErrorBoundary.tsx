// An error boundary: when a part of the page fails to render, the rest stays, and that part is shown as raw text.

import { Component, type ComponentChildren } from "preact";
import { asText } from "../text/format.ts";
import { visible } from "../text/visible.ts";

interface Props {
  resetKey?: unknown; // when it changes, rendering is tried again
  raw?: unknown; // the data that is rendered
  children: ComponentChildren;
}

export class ErrorBoundary extends Component<Props, { failed: boolean }> {
  override state = { failed: false };

  static override getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override componentDidCatch(error: unknown): void {
    console.error(error);
  }

  override componentDidUpdate(before: Props): void {
    if (this.state.failed && before.resetKey !== this.props.resetKey) this.setState({ failed: false });
  }

  override render() {
    if (!this.state.failed) return this.props.children;
    const text = rawText(this.props.raw);
    return (
      <div class="render-error" data-testid="render-error" role="group" aria-label="Could not be displayed">
        <p class="note warning">This could not be displayed.{text && " Raw content:"}</p>
        {text && (
          <pre class="output" tabIndex={0} role="region" aria-label="Raw content">
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
