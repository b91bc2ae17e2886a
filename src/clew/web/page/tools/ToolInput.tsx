// The whole input of a tool call: its edits as diffs, then its other fields, each in a frame of its own.

import { visible, visibleLine } from "../text/visible.ts";
import { Fold } from "../ui/Fold.tsx";
import { Output } from "../ui/Output.tsx";
import { EditDiff } from "./EditDiff.tsx";
import { editsOf, type Edit } from "./edits.ts";
import { fieldsOf, type Field } from "./fields.ts";

const SHORT_CHARS = 80; // a shorter value is shown beside its name

interface Props {
  input: Record<string, unknown>;
  edits?: readonly Edit[]; // what the input shows, unless more is known
}

export function ToolInput({ input, edits = editsOf(input) }: Props) {
  const fields = fieldsOf(input);
  return (
    <div class="tool-input" data-testid="tool-input">
      {edits.map((edit, index) => (
        <EditDiff key={index} edit={edit} />
      ))}
      {fields.map((field, index) => (
        <FieldView
          key={field.name}
          field={field}
          first={index === 0 && edits.length === 0}
          isCommand={field.name === "command" && typeof input.command === "string"}
        />
      ))}
      {edits.length === 0 && fields.length === 0 && <p class="note plain">No input.</p>}
    </div>
  );
}

/** The first field is what people read before they allow the call, so it is open, however long it is. */
function FieldView({ field, first, isCommand }: { field: Field; first: boolean; isCommand: boolean }) {
  const output = <Output label={visibleLine(field.name)} text={isCommand ? `$ ${field.text}` : field.text} />;
  if (field.size) {
    const summary = (
      <>
        <span class="tool-name">{visible(field.name)}</span>
        <span class="tool-arg">{visibleLine(field.text)}</span>
        <span class="length">{field.size}</span>
      </>
    );
    return (
      <Fold class="long" summary={summary} initiallyOpen={first}>
        {() => output}
      </Fold>
    );
  }
  const isShort = !isCommand && field.text.length <= SHORT_CHARS && !field.text.includes("\n");
  return (
    <div class={isShort ? "field short" : "field"}>
      {!isCommand && <span class="tool-name">{visible(field.name)}</span>}
      {output}
    </div>
  );
}
