// What the agent asks a person, answered where it stands: a form with choices and own words, or a permission.

import { useId, useState } from "preact/hooks";
import { answer } from "./actions.ts";
import { askedOf, UNREADABLE, type Asked } from "./forms.ts";
import { asText } from "./fields.ts";
import { Given } from "./Given.tsx";
import { focused } from "./near.ts";
import { Output } from "./Steps.tsx";
import { visible, visibleLine } from "./visible.ts";
import type { Question } from "./wire.ts";

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
  const { asked, whole } = askedOf(question.input);
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
      {!whole && (
        <>
          <p class="note warning">Not all of this form can be read. As it came:</p>
          <Output label="The form as it came" text={asText(question.input)} />
        </>
      )}
      {asked.map((each, index) => (
        <Field key={index} asked={each} choice={choices[index]} change={(next) => change(index, next)} />
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
        {asked.header && <span class="tag">{visible(asked.header)}</span>}{" "}
        <bdi>{asked.question === UNREADABLE ? "Your answer" : visible(asked.question)}</bdi>
      </legend>
      {asked.options.map((option, index) => (
        <label key={index} class="option">
          <input
            type={asked.many ? "checkbox" : "radio"}
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
        class="own"
        type="text"
        placeholder={asked.options.length > 0 ? "or in your own words" : "your answer"}
        aria-label={`Own words: ${visibleLine(asked.question)}`}
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
    <form class="card question" data-testid="permission-form" onSubmit={submit} aria-label={`May it use ${visibleLine(question.tool)}?`}>
      <h2>
        May it use <code>{visible(question.tool)}</code>?
      </h2>
      <Asleep question={question} />
      <Given input={question.input} />
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
