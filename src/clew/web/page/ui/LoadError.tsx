// An error in place of what could not be loaded, with a button to try again.

import type { Problem } from "../daemon/http.ts";
import { visible } from "../text/visible.ts";
import { Warning } from "./icons.tsx";

export const LoadError = ({ problem, retry }: { problem: Problem; retry: () => unknown }) => (
  <div class="ending problem" role="alert">
    <p>
      <Warning /> <strong>{visible(problem.message)}</strong>
    </p>
    {problem.hint && <p>{visible(problem.hint)}</p>}
    <div class="row">
      <button type="button" onClick={() => void retry()}>
        Try again
      </button>
    </div>
  </div>
);
