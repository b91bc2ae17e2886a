// The diff of what a tool that asks for permission would change: the daemon makes it, against the files as they are now.

import type { ProposedEdit } from "../daemon/wire.ts";
import { plural } from "../text/format.ts";
import type { Edit, Line } from "./edits.ts";

export function editOf({ path, lines, note, omitted }: ProposedEdit): Edit {
  const hunks: Line[][] = [];
  for (const line of lines) {
    const sign = line[0];
    if (sign === "@") hunks.push([]);
    else if (sign === "+" || sign === "-" || sign === " ") hunks.at(-1)?.push({ sign, text: line.slice(1) });
  }
  const more = omitted > 0 ? `${plural(omitted, "more line")} of the diff not shown.` : "";
  return { path, kind: "change", hunks, note: [note, more].filter(Boolean).join(" ") };
}
