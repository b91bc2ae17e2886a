// A question of the agent, answered in place: a form with choices and free text, or a permission.

import { useEffect, useId, useState } from "preact/hooks";
import { http } from "../daemon/http.ts";
import type { Choice as PermissionChoice, Question } from "../daemon/wire.ts";
import { answer } from "../state/actions.ts";
import { asText } from "../text/format.ts";
import { visible, visibleLine } from "../text/visible.ts";
import { focusOnMount } from "../ui/focus.ts";
import { Output } from "../ui/Output.tsx";
import { editsOf, type Edit } from "./edits.ts";
import { editOf } from "./proposed.ts";
import { readForm, UNREADABLE, type FormQuestion } from "./questions.ts";
import { ToolInput } from "./ToolInput.tsx";

export function QuestionCard({ question }: { question: Question }) {
  return question.is_form ? <QuestionForm question={question} /> : <PermissionForm question={question} />;
}

const RunEndedNote = ({ question }: { question: Question }) =>
  question.live ? null : (
    <p class="note plain">The run that asked has ended. Your answer is sent to its session as a message, in a new run.</p>
  );

interface Choice {
  picked: readonly string[];
  own: string; // the answer in the user's own words
}

function QuestionForm({ question }: { question: Question }) {
  const { questions, complete } = readForm(question.input);
  const [choices, setChoices] = useState<readonly Choice[]>(questions.map(() => ({ picked: [], own: "" })));
  const [busy, setBusy] = useState(false);
  const answers = choices.map(({ picked, own }) => [...picked, own.trim()].filter(Boolean).join(", "));
  const isAnswered = answers.every(Boolean);

  const change = (index: number, next: Choice): void => setChoices(choices.map((each, at) => (at === index ? next : each)));
  const send = async (reply: Record<string, unknown>): Promise<void> => {
    setBusy(true);
    await answer(question, reply);
    setBusy(false);
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    if (!isAnswered || busy) return;
    void send({ allow: true, answers: Object.fromEntries(questions.map((each, index) => [each.question, answers[index]])) });
  };
  return (
    <form class="card question" data-testid="question-form" onSubmit={submit} aria-label="The agent asks">
      <h2>The agent asks</h2>
      <RunEndedNote question={question} />
      {!complete && (
        <>
          <p class="note warning">A part of this form cannot be displayed. Raw form:</p>
          <Output label="Raw form" text={asText(question.input)} />
        </>
      )}
      {questions.map((each, index) => (
        <QuestionField key={index} question={each} choice={choices[index]} change={(next) => change(index, next)} />
      ))}
      <div class="row">
        <button class="primary" type="submit" disabled={!isAnswered || busy} data-testid="question-answer">
          Answer
        </button>
        <button
          type="button"
          disabled={busy}
          onClick={() => void send({ allow: false, message: "The user does not want to answer. Decide yourself." })}
        >
          Let the agent decide
        </button>
      </div>
    </form>
  );
}

interface FieldProps {
  question: FormQuestion;
  choice: Choice | undefined;
  change: (next: Choice) => void;
}

function QuestionField({ question, choice, change }: FieldProps) {
  const id = useId();
  const { picked, own } = choice ?? { picked: [], own: "" };
  const pick = (label: string): void => {
    if (!question.multiple) change({ picked: [label], own: "" });
    else change({ picked: picked.includes(label) ? picked.filter((each) => each !== label) : [...picked, label], own });
  };
  return (
    <fieldset>
      <legend>
        {question.header && <span class="tag">{visible(question.header)}</span>}{" "}
        <bdi>{question.question === UNREADABLE ? "Your answer" : visible(question.question)}</bdi>
      </legend>
      {question.options.map((option, index) => (
        <label key={index} class="option">
          <input
            type={question.multiple ? "checkbox" : "radio"}
            name={id}
            checked={picked.includes(option.label)}
            onChange={() => pick(option.label)}
          />
          <span>
            <bdi>{visible(option.label)}</bdi>
            {option.description && <small>{visible(option.description)}</small>}
          </span>
        </label>
      ))}
      <input
        class="free-text"
        type="text"
        placeholder={question.options.length > 0 ? "or in your own words" : "your answer"}
        aria-label={`In your own words: ${visibleLine(question.question)}`}
        value={own}
        onInput={(event) => change({ picked: question.multiple ? picked : [], own: event.currentTarget.value })}
      />
    </fieldset>
  );
}

/** The diff against the files as they are now. Until it is loaded, and if it cannot be: what the input shows. */
function useProposedEdits({ run_id, id, input }: Question): readonly Edit[] | undefined {
  const [edits, setEdits] = useState<readonly Edit[]>();
  const isEdit = editsOf(input).length > 0;
  useEffect(() => {
    if (!isEdit) return;
    let isShown = true;
    void http.proposedEdits(run_id, id).then(
      ({ items }) => isShown && items.length > 0 && setEdits(items.map(editOf)),
      () => undefined,
    );
    return () => {
      isShown = false;
    };
  }, [run_id, id, isEdit]);
  return edits;
}

function PermissionForm({ question }: { question: Question }) {
  const [reasoning, setReasoning] = useState<PermissionChoice | null>(null); // the choice that needs a message
  const [message, setMessage] = useState("");
  const [busy, setBusy] = useState(false);
  const edits = useProposedEdits(question);
  const send = async ({ allow, scope }: PermissionChoice, why = ""): Promise<void> => {
    setBusy(true);
    await answer(question, allow ? { allow, scope } : { allow, ...(why ? { message: why } : {}) });
    setBusy(false);
  };
  const deny = (event: Event): void => {
    event.preventDefault();
    if (reasoning) void send(reasoning, message.trim());
  };
  const tool = visibleLine(question.tool);
  return (
    <form class="card question" data-testid="permission-form" onSubmit={deny} aria-label={`Allow the agent to use ${tool}?`}>
      <h2>
        Allow the agent to use <code>{visible(question.tool)}</code>?
      </h2>
      <RunEndedNote question={question} />
      <ToolInput input={question.input} {...(edits ? { edits } : {})} />
      {reasoning && (
        <input
          class="free-text"
          type="text"
          ref={focusOnMount}
          aria-label="Message to the agent"
          placeholder="what the agent should do instead"
          data-testid="deny-message"
          value={message}
          onInput={(event) => setMessage(event.currentTarget.value)}
        />
      )}
      <div class="row choices">
        {reasoning ? (
          <>
            <button class="primary" type="submit" disabled={busy} title={reasoning.meaning} data-testid="deny">
              {visible(reasoning.label)}
            </button>
            <button type="button" onClick={() => setReasoning(null)}>
              Back
            </button>
          </>
        ) : (
          question.choices.map((choice, index) => (
            <button
              key={choice.name}
              class={index === 0 ? "primary" : undefined}
              type="button"
              disabled={busy}
              title={choice.meaning}
              data-testid={TEST_IDS[choice.name]}
              onClick={() => (choice.says_why ? setReasoning(choice) : void send(choice))}
            >
              {visible(choice.label)}
            </button>
          ))
        )}
      </div>
    </form>
  );
}

const TEST_IDS: Record<PermissionChoice["name"], string> = {
  once: "allow",
  run: "allow-run",
  thread: "allow-thread",
  no: "deny",
  "no-and-why": "deny-with-message",
};
