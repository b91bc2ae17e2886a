// A file edit of a tool call as a diff.

import { baseName } from "../text/format.ts";
import { visible, visibleLine } from "../text/visible.ts";
import type { Edit } from "./edits.ts";
import { sizeOf } from "./fields.ts";

export function EditDiff({ edit }: { edit: Edit }) {
  const size = sizeOf(edit.hunks.map((hunk) => hunk.map((line) => line.text).join("\n")).join("\n"));
  return (
    <figure class="diff">
      <figcaption title={visible(edit.path)}>
        <bdi>{visible(edit.path)}</bdi> {edit.kind !== "change" && <em>{edit.kind === "add" ? "written" : "deleted"}</em>}{" "}
        {size && <span class="length">{size}</span>}
      </figcaption>
      {edit.note && <p class="note plain">{edit.note}</p>}
      <div class="diff-lines" tabIndex={0} role="region" aria-label={`Changes in ${visibleLine(baseName(edit.path))}`}>
        {edit.hunks.map((hunk, at) => (
          <pre key={at}>
            {hunk.map((line, index) => (
              <span key={index} class={line.sign === "+" ? "added" : line.sign === "-" ? "removed" : "kept"}>
                {line.sign}
                {visible(line.text)}
                {"\n"}
              </span>
            ))}
          </pre>
        ))}
        {edit.hunks.length === 0 && !edit.note && (
          <p class="note plain">The agent does not report what changed in this file.</p>
        )}
      </div>
    </figure>
  );
}
