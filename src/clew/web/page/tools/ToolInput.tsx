// All that a tool was given: edits as diffs, then its other fields, each in a frame of its own.

import { editsOf } from "./edits.ts";
import { fieldsOf, type Field } from "./fields.ts";
import { Diff, Fold, Output } from "./Steps.tsx";
import { visible, visibleLine } from "./visible.ts";

const SHORT = 80; // characters that stand beside their name

export function Given({ input }: { input: Record<string, unknown> }) {
  const edits = editsOf({ input });
  const fields = fieldsOf(input);
  return (
    <div class="given" data-testid="given">
      {edits.map((edit, index) => (
        <Diff key={index} edit={edit} />
      ))}
      {fields.map((field, index) => (
        <Value
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

/** The first one is what is read before anything is allowed: it is open, however long it is. */
function Value({ field, first, isCommand }: { field: Field; first: boolean; isCommand: boolean }) {
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
      <Fold class="long" summary={summary} opened={first}>
        {() => output}
      </Fold>
    );
  }
  return (
    <div class={isCommand || field.text.length > SHORT || field.text.includes("\n") ? "field" : "field short"}>
      {!isCommand && <span class="tool-name">{visible(field.name)}</span>}
      {output}
    </div>
  );
}
