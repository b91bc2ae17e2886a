// The steps of a run: its messages, with each tool call between them folded to one line.

import { useEffect, useState } from "preact/hooks";
import { http } from "../daemon/http.ts";
import {
  isOpen,
  isTodoTool,
  progressOf,
  type Part,
  type Progress,
  type ToolPart,
  type ToolState,
} from "../state/progress.ts";
import { plural } from "../text/format.ts";
import { Markdown, StreamingMarkdown } from "../text/Markdown.tsx";
import { visible, visibleLine } from "../text/visible.ts";
import { Fold } from "../ui/Fold.tsx";
import { Output } from "../ui/Output.tsx";
import { editsOf, lineCounts, mainArgument, type Edit } from "./edits.ts";
import { ToolInput } from "./ToolInput.tsx";

/** What a run did: by its events if the page has received them, else by its stored steps. `run`: whose steps to load. */
export function useSteps(run: string | null, progress: Progress | null = null): readonly Part[] | null {
  const [stored, setStored] = useState<Progress | null>(null);
  const received = progress !== null && progress.parts.length > 0;
  const wanted = received || stored ? null : run;
  useEffect(() => {
    if (!wanted) return;
    http.steps(wanted).then(
      ({ items }) => setStored(progressOf(items)),
      () => undefined,
    );
  }, [wanted]);
  return (received ? progress : stored)?.parts ?? null;
}

/** `live`: the run is active. */
export function Steps({ parts, live }: { parts: readonly Part[]; live: boolean }) {
  return (
    <>
      {grouped(parts).map((group, index) => {
        switch (group.kind) {
          case "text":
            return live && !group.complete ? (
              <StreamingMarkdown key={index} text={group.text} />
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
          case "question":
            return (
              <p key={index} class="note plain">
                You declined: “{visible(declineMessage(group))}”
              </p>
            );
        }
      })}
    </>
  );
}

type Group = Exclude<Part, ToolPart> | { kind: "tools"; tools: ToolPart[] };

/** Consecutive tool calls are one group. Of the questions, only those are kept that were declined with a message. */
function grouped(parts: readonly Part[]): Group[] {
  const groups: Group[] = [];
  for (const part of parts) {
    const last = groups.at(-1);
    if (part.kind !== "tool") {
      if (part.kind !== "question" || declineMessage(part)) groups.push(part);
    } else if (last?.kind === "tools") last.tools.push(part);
    else groups.push({ kind: "tools", tools: [part] });
  }
  return groups;
}

const declineMessage = (part: Part): string =>
  part.kind === "question" && part.answer?.by === "user" && !part.answer.allowed
    ? part.answer.message.replace(/^The user declined, and says: /, "")
    : "";

interface ToolsProps {
  tools: ToolPart[];
  live: boolean;
}

const MAX_UNFOLDED = 4; // a longer sequence of calls is folded

function Tools({ tools, live }: ToolsProps) {
  if (tools.length <= MAX_UNFOLDED) return <ToolList tools={tools} live={live} />;
  // While the run is active, the two newest calls stay visible, and every call that waits for a person.
  const visibleTools = live ? tools.filter((tool, index) => index >= tools.length - 2 || tool.state === "waiting") : [];
  const folded = tools.filter((tool) => !visibleTools.includes(tool));
  return (
    <>
      <Fold summary={<StepCount tools={folded} />} class="steps">
        {() => <ToolList tools={folded} live={live} />}
      </Fold>
      {live && <ToolList tools={visibleTools} live />}
    </>
  );
}

function StepCount({ tools }: { tools: ToolPart[] }) {
  const counts = new Map<string, number>();
  for (const { name } of tools) counts.set(name, (counts.get(name) ?? 0) + 1);
  const names = [...counts].map(([name, n]) => (n > 1 ? `${name} ×${n}` : name)).join(", ");
  return (
    <>
      <span class="tool-name">{plural(tools.length, "step")}</span> <span class="tool-arg">{visibleLine(names)}</span>
    </>
  );
}

const ToolList = ({ tools, live }: ToolsProps) => (
  <div class="tools">
    {tools.map((tool) => (
      <Tool key={tool.id} tool={tool} state={!live && isOpen(tool) ? "unfinished" : tool.state} />
    ))}
  </div>
);

function Tool({ tool, state }: { tool: ToolPart; state: ToolState }) {
  const edits = editsOf(tool.input);
  const { added, removed } = lineCounts(edits);
  const argument = edits.length === 1 && edits[0] ? withParent(edits[0].path) : mainArgument(tool.input);
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

/** The name of a file and of its folder. */
const withParent = (path: string): string => path.split("/").slice(-2).join("/");

function ToolBody({ tool, edits }: { tool: ToolPart; edits: Edit[] }) {
  const failed = tool.state === "failed" || tool.state === "declined";
  return (
    <div class="tool-body">
      {tool.allowedBy && <p class="note plain">{tool.allowedBy}</p>}
      <ToolInput input={tool.input} />
      {tool.output && (edits.length === 0 || failed) && <Output label="Output" text={tool.output} failed={failed} />}
      {tool.output === "" && edits.length === 0 && <p class="note plain">No output.</p>}
    </div>
  );
}
