// The button in a header that leads back to the list of threads, where only one of the two fits the screen.

import { go } from "../state/routes.ts";
import { Left } from "./icons.tsx";

export const BackToList = () => (
  <button
    class="quiet only-narrow"
    type="button"
    aria-label="All threads"
    data-testid="back-to-list"
    onClick={() => go({ at: "home" })}
  >
    <Left />
  </button>
);
