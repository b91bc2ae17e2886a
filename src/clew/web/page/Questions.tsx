// What the agent asks a person, answered where it stands: a form with choices and own words, or a permission.

import { useId, useState } from "preact/hooks";
import { answer } from "./actions.ts";
import { editsOf, mainArgument } from "./edits.ts";
import { focused } from "./near.ts";
import { Diff, Output } from "./Steps.tsx";
import type { Question } from "./wire.ts";

interface Option {
  label: string;
  description: string;
}

interface Asked {
  question: string;
  header: string;
  options: Option[];
  many: boolean;
}

const str = (value: unknown): string => (typeof value === "string" ? value : "");

function askedOf(input: Record<string, unknown>): Asked[] {
  const list = Array.isArray(input.questions) ? (input.questions as Record<string, unknown>[]) : [];
  return list.map((each) => ({
    question: str(each.question),
    header: str(each.header),
    many: each.multiSelect === true,
    options: (Array.isArray(each.options) ? (each.options as Record<string, unknown>[]) : []).map((option) => ({
      label: str(option.label),
      description: str(option.description),
    })),
  }));
}

export function QuestionCard({ question }: { question: Question }) {
  return question.is_form ? <Form question={question} /> : <Permission question={question} />;
}

const Asleep = ({ question }: { question: Question }) =>
  question.live ? null : (
    <p class="note plain">The run that asked is over. Your answer goes to its session as a message, in a new run.</p>
  );

interface Choice {
  picked: readonly string[];
  own: string;
}

function Form({ question }: { question: Question }) {
  const asked = askedOf(question.input);
  const [choices, choose] = useState<readonly Choice[]>(asked.map(() => ({ picked: [], own: "" })));
  const [busy, setBusy] = useState(false);
  const words = choices.map(({ picked, own }) => [...picked, own.trim()].filter(Boolean).join(", "));
  const complete = words.every(Boolean);

  const change = (index: number, next: Choice): void => choose(choices.map((each, at) => (at === index ? next : each)));
  const send = async (said: Record<string, unknown>): Promise<void> => {
    setBusy(true);
    await answer(question, said);
    setBusy(false);
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    if (complete && !busy) void send({ allow: true, answers: Object.fromEntries(asked.map((q, i) => [q.question, words[i]])) });
  };
  return (
    <form class="card question" data-testid="question-form" onSubmit={submit} aria-label="The agent asks">
      <h2>The agent asks</h2>
      <Asleep question={question} />
      {asked.map((each, index) => (
        <Field key={each.question} asked={each} choice={choices[index]} change={(next) => change(index, next)} />
      ))}
      <div class="row">
        <button class="primary" type="submit" disabled={!complete || busy} data-testid="question-answer">
          Answer
        </button>
        <button
          type="button"
          disabled={busy}
          onClick={() => void send({ allow: false, message: "The user does not want to answer. Decide yourself." })}
        >
          Let it decide
        </button>
      </div>
    </form>
  );
}

function Field({ asked, choice, change }: { asked: Asked; choice: Choice | undefined; change: (next: Choice) => void }) {
  const id = useId();
  const { picked, own } = choice ?? { picked: [], own: "" };
  const pick = (label: string): void => {
    if (!asked.many) change({ picked: [label], own: "" });
    else change({ picked: picked.includes(label) ? picked.filter((each) => each !== label) : [...picked, label], own });
  };
  return (
    <fieldset>
      <legend>
        {asked.header && <span class="tag">{asked.header}</span>} {asked.question}
      </legend>
      {asked.options.map((option) => (
        <label key={option.label} class="option">
          <input
            type={asked.many ? "checkbox" : "radio"}
            name={id}
            checked={picked.includes(option.label)}
            onChange={() => pick(option.label)}
          />
          <span>
            {option.label}
            {option.description && <small>{option.description}</small>}
          </span>
        </label>
      ))}
      <input
        class="own"
        type="text"
        placeholder={asked.options.length > 0 ? "or in your own words" : "your answer"}
        aria-label={`Own words: ${asked.question}`}
        value={own}
        onInput={(event) => change({ picked: asked.many ? picked : [], own: event.currentTarget.value })}
      />
    </fieldset>
  );
}

function Permission({ question }: { question: Question }) {
  const [wording, setWording] = useState(false);
  const [message, setMessage] = useState("");
  const [busy, setBusy] = useState(false);
  const edits = editsOf({ input: question.input });
  const command = str(question.input.command);
  const send = async (allow: boolean): Promise<void> => {
    setBusy(true);
    await answer(question, allow ? { allow } : { allow, message: message.trim() || "The user said no." });
    setBusy(false);
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    void send(false);
  };
  return (
    <form class="card question" data-testid="permission-form" onSubmit={submit} aria-label={`May it use ${question.tool}?`}>
      <h2>
        May it use <code>{question.tool}</code>?
      </h2>
      <Asleep question={question} />
      {edits.map((edit, index) => (
        <Diff key={index} edit={edit} />
      ))}
      {edits.length === 0 && (
        <Output
          label="What it wants to do"
          text={command ? `$ ${command}` : mainArgument(question.input) || JSON.stringify(question.input, null, 2)}
        />
      )}
      {wording && (
        <input
          class="own"
          type="text"
          ref={focused}
          aria-label="What to tell the agent"
          placeholder="what it should do instead"
          data-testid="deny-words"
          value={message}
          onInput={(event) => setMessage(event.currentTarget.value)}
        />
      )}
      <div class="row">
        {!wording && (
          <button class="primary" type="button" disabled={busy} data-testid="allow" onClick={() => void send(true)}>
            Allow
          </button>
        )}
        <button type="submit" disabled={busy} data-testid="deny">
          Deny
        </button>
        <button type="button" data-testid="deny-with-words" onClick={() => setWording(!wording)}>
          {wording ? "Back" : "Deny with words…"}
        </button>
      </div>
    </form>
  );
}
