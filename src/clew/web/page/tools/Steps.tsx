// What an agent did between its words: tool calls folded to a line each, file edits as small diffs, output of commands.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { editsOf, mainArgument, size, type Edit } from "./edits.ts";
import { Given } from "./Given.tsx";
import { sizeOf } from "./fields.ts";
import { http } from "./http.ts";
import { Caret } from "./icons.tsx";
import { GrowingMarkdown, Markdown } from "./Markdown.tsx";
import { fromSteps, isOpen, isTodoTool, type Part, type Progress, type ToolPart, type ToolState } from "./progress.ts";
import { visible, visibleLine } from "./visible.ts";
import { lastName, plural } from "./words.ts";

const SHOWN_ALONE = 4; // more calls in a row than these are folded together

type Group = Exclude<Part, ToolPart> | { kind: "tools"; tools: ToolPart[] };

function grouped(parts: readonly Part[]): Group[] {
  const groups: Group[] = [];
  for (const part of parts) {
    const last = groups.at(-1);
    if (part.kind !== "tool") {
      if (part.kind !== "asked" || refusal(part)) groups.push(part);
    } else if (last?.kind === "tools") last.tools.push(part);
    else groups.push({ kind: "tools", tools: [part] });
  }
  return groups;
}

const refusal = (part: Part): string =>
  part.kind === "asked" && part.answer?.by === "user" && !part.answer.allowed ? part.answer.message : "";

/** What a run did: by its events where the page has heard them, else as it is stored. `run`: the one to ask for, if any. */
export function useParts(run: string | null, progress: Progress | null = null): readonly Part[] | null {
  const [stored, store] = useState<Progress | null>(null);
  const known = progress !== null && progress.parts.length > 0;
  const wanted = known || stored ? null : run;
  useEffect(() => {
    if (!wanted) return;
    http.steps(wanted).then(
      ({ items }) => store(fromSteps(items)),
      () => undefined,
    );
  }, [wanted]);
  return (known ? progress : stored)?.parts ?? null;
}

export function Parts({ parts, live }: { parts: readonly Part[]; live: boolean }) {
  return (
    <>
      {grouped(parts).map((group, index) => {
        switch (group.kind) {
          case "text":
            return live && !group.whole ? (
              <GrowingMarkdown key={index} text={group.text} />
            ) : (
              <Markdown key={index} text={group.text} />
            );
          case "tools":
            return <Tools key={index} tools={group.tools} live={live} />;
          case "note":
            return (
              <p key={index} class={`note ${group.tone}`}>
                {visible(group.text)}
              </p>
            );
          case "asked":
            return (
              <p key={index} class="note plain">
                You declined: “{visible(refusal(group))}”
              </p>
            );
        }
      })}
    </>
  );
}

function Tools({ tools, live }: Listed) {
  const folded = tools.length > SHOWN_ALONE;
  if (!folded) return <ToolList tools={tools} live={live} />;
  // While the run goes on, the newest stay in sight, and whatever waits for a person.
  const seen = live ? tools.filter((tool, index) => index >= tools.length - 2 || tool.state === "waiting") : [];
  const hidden = tools.filter((tool) => !seen.includes(tool));
  return (
    <>
      <Fold summary={<StepCount tools={hidden} />} class="steps">
        {() => <ToolList tools={hidden} live={live} />}
      </Fold>
      {live && <ToolList tools={seen} live />}
    </>
  );
}

function StepCount({ tools }: { tools: ToolPart[] }) {
  const names = new Map<string, number>();
  for (const { name } of tools) names.set(name, (names.get(name) ?? 0) + 1);
  const words = [...names].map(([name, n]) => (n > 1 ? `${name} ×${n}` : name)).join(", ");
  return (
    <>
      <span class="tool-name">{plural(tools.length, "step")}</span> <span class="tool-arg">{visibleLine(words)}</span>
    </>
  );
}

interface Listed {
  tools: ToolPart[];
  live: boolean; // the run goes on
}

const ToolList = ({ tools, live }: Listed) => (
  <div class="tools">
    {tools.map((tool) => (
      <Tool key={tool.id} tool={tool} state={!live && isOpen(tool) ? "unfinished" : tool.state} />
    ))}
  </div>
);

function Tool({ tool, state }: { tool: ToolPart; state: ToolState }) {
  const edits = editsOf(tool);
  const { added, removed } = size(edits);
  const argument = edits.length === 1 && edits[0] ? shortName(edits[0].path) : mainArgument(tool.input);
  return (
    <Fold
      class={`tool ${state}`}
      testid="tool"
      summary={
        <>
          <span class="dot" aria-hidden="true" />
          <span class="tool-name">{visibleLine(tool.name)}</span>
          <span class="tool-arg">{isTodoTool(tool) ? "to-do list" : visibleLine(argument)}</span>
          {edits.length > 0 && (
            <span class="tool-size">
              <ins>+{added}</ins> <del>−{removed}</del>
            </span>
          )}
          {state !== "done" && <span class="tool-state">{state === "waiting" ? "waiting for you" : state}</span>}
        </>
      }
    >
      {() => <ToolBody tool={tool} edits={edits} />}
    </Fold>
  );
}

const shortName = (path: string): string => path.split("/").slice(-2).join("/");

function ToolBody({ tool, edits }: { tool: ToolPart; edits: Edit[] }) {
  const wrong = tool.state === "failed" || tool.state === "declined";
  return (
    <div class="tool-body">
      <Given input={tool.input} />
      {tool.output && (edits.length === 0 || wrong) && <Output label="Output" text={tool.output} failed={wrong} />}
      {tool.output === "" && edits.length === 0 && <p class="note plain">No output.</p>}
    </div>
  );
}

export const Output = ({ label, text, failed = false }: { label: string; text: string; failed?: boolean }) => (
  <pre class={failed ? "output failed" : "output"} tabIndex={0} role="region" aria-label={label}>
    {visible(text)}
  </pre>
);

export function Diff({ edit }: { edit: Edit }) {
  const long = sizeOf(edit.hunks.map((hunk) => hunk.map((line) => line.text).join("\n")).join("\n"));
  return (
    <figure class="diff">
      <figcaption title={visible(edit.path)}>
        <bdi>{visible(edit.path)}</bdi> {edit.kind !== "change" && <em>{edit.kind === "add" ? "written" : "deleted"}</em>} {long && <span class="length">{long}</span>}
      </figcaption>
      <div class="diff-lines" tabIndex={0} role="region" aria-label={`Changes in ${visibleLine(lastName(edit.path))}`}>
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
        {edit.hunks.length === 0 && <p class="note plain">The agent does not say what changed in it.</p>}
      </div>
    </figure>
  );
}

interface Folding {
  summary: ComponentChildren;
  children: () => ComponentChildren;
  class: string;
  testid?: string;
  opened?: boolean;
}

/** Its inside is made when it is opened. */
export function Fold({ summary, children, class: name, testid, opened = false }: Folding) {
  const [open, toggle] = useState(opened);
  return (
    <details class={`fold ${name}`} data-testid={testid} open={opened} onToggle={(event) => toggle(event.currentTarget.open)}>
      <summary>
        <Caret size={12} />
        {summary}
      </summary>
      {open && children()}
    </details>
  );
}
