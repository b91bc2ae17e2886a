"""Questions of agents on the command line: how they are shown, and how an answer is made from options."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clew.api.wire import questions as wire
from clew.cli.ui.formatting import harmless, one_line
from clew.cli.ui.tool_lines import input_summary, input_text, main_field, shortened
from clew.core.ids import SHORT_ID
from clew.core.record import Record
from clew.core.runs.choices import DECLINED, FORM_DECLINED, declined_because, reason_in
from clew.core.runs.permissions import Answer, Scope
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.core.runs.question import Question

TEXT_CHARS = 200  # of a question or an option
NAME_CHARS = 60  # a question with a longer text is named by its number
MAX_FIELDS = 40  # of a tool's input
UNREADABLE = "Your questions"  # stands for the questions of a form if none of them can be read
UNREAD = "Not all of this form can be read. This is what was sent:"


class FormQuestion(Record):
    """One question of a form."""

    text: str
    header: str
    labels: tuple[str, ...]
    descriptions: tuple[str, ...]  # one for each label
    several: bool  # more than one label may be chosen

    def option_lines(self) -> list[str]:
        return [
            f"  {number}. {one_line(label, TEXT_CHARS)}{f': {one_line(about, TEXT_CHARS)}' if about else ''}"
            for number, (label, about) in enumerate(zip(self.labels, self.descriptions, strict=True), 1)
        ]


def form_questions(form: Mapping[str, Any]) -> list[FormQuestion]:
    """The questions of a form that can be read; if none can, a single one that takes any text as its answer."""
    return [asked for asked, _ in _read(form) if asked] or [FormQuestion(UNREADABLE, "", (), (), several=False)]


def is_readable(form: Mapping[str, Any]) -> bool:
    """True if all of the form can be read."""
    found = _read(form)
    return bool(found) and all(whole for _, whole in found)


def _read(form: Mapping[str, Any]) -> list[tuple[FormQuestion | None, bool]]:
    """Each entry of the form, and whether all of it could be read. An agent may have sent anything."""
    given = form.get("questions")
    return [_read_entry(each) for each in given] if isinstance(given, list | tuple) else []


def _read_entry(given: object) -> tuple[FormQuestion | None, bool]:
    if not isinstance(given, Mapping) or not _text(given.get("question")).strip():
        return None, False
    listed = given.get("options")
    entries = listed if isinstance(listed, list | tuple) else ()
    options = [each if isinstance(each, Mapping) else {"label": each} for each in entries]
    options = [option for option in options if _text(option.get("label")).strip()]
    asked = FormQuestion(
        text=_text(given["question"]),
        header=_text(given.get("header")),
        labels=tuple(_text(option["label"]) for option in options),
        descriptions=tuple(_text(option.get("description")) for option in options),
        several=bool(given.get("multiSelect")),
    )
    return asked, len(options) == len(entries) and (listed is None or isinstance(listed, list | tuple))


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def question_lines(question: Question) -> list[str]:
    """The question as text: a form with its options, a permission with the whole input of the tool."""
    if question.is_form:
        form = question.input
        lines = [
            line for asked in form_questions(form) for line in (one_line(asked.text, TEXT_CHARS), *asked.option_lines())
        ]
        return lines if is_readable(form) else [*raw_form(form), *lines]
    summary = input_summary(question.input)
    head = f"{one_line(question.tool, NAME_CHARS)} wants permission{f': {summary}' if summary else ''}"
    return [head, *(f"  {line}" for line in _other_fields(question.input, summary))]


def raw_form(form: Mapping[str, Any]) -> list[str]:
    return [UNREAD, *(f"  {line}" for line in shortened(input_text(form)).splitlines())]


def _other_fields(given: Mapping[str, Any], summary: str) -> list[str]:
    """Every field that the summary does not show completely. A long value is cut, and says so."""
    main = main_field(given)
    if main is None and json.dumps(given, ensure_ascii=False) == summary:
        return []
    rest = {key: value for key, value in given.items() if key != main or value != summary}
    lines = [
        line
        for key, value in list(rest.items())[:MAX_FIELDS]
        for line in shortened(input_text({key: value})).splitlines()
    ]
    return [*lines, f"… {len(rest) - MAX_FIELDS} more fields"] if len(rest) > MAX_FIELDS else lines


def how_to_answer(question: Question, *, several: bool = False) -> str:
    """The command that answers the question. `several`: its run has other open questions too."""
    which = f" --question {question.id}" if several else ""
    command = f"clew runs answer {question.run_id[:SHORT_ID]}{which}"
    if not question.is_form:
        return f"{command} --allow, or --deny"
    given = (_answer_option(number, asked) for number, asked in enumerate(form_questions(question.input), 1))
    return f"{command} {' '.join(given)}, or --deny"


def _answer_option(number: int, asked: FormQuestion) -> str:
    """An option that answers the question, to be typed or pasted. It is quoted, since an agent wrote its text."""
    import shlex

    name = asked.text if one_line(asked.text, NAME_CHARS) == asked.text else str(number)
    first = asked.labels[0] if asked.labels else "…"
    return f"--answer {shlex.quote(f'{name}={first if one_line(first, NAME_CHARS) == first else 1}')}"


def as_object(question: Question, *, live: bool) -> dict[str, Any]:
    """The same object as in the HTTP API. `live`: the run that asked has not ended."""
    return wire.question(question, live=live).to_json()


def answer_from(
    question: Question, *, allow: bool | None, message: str | None, answers: Sequence[str], scope: Scope = Scope.ONCE
) -> Answer:
    """The answer that the options give. Raises UsageError if they do not fit the question."""
    if message is not None and allow is not False:
        raise UsageError("--message needs --deny.", hint="Answer a form with --answer.")
    if answers and allow is False:
        raise UsageError("--deny leaves a form unanswered.", hint="Give either --deny or --answer.")
    if allow is False:
        declined = FORM_DECLINED if question.is_form else DECLINED
        return Answer(allow=False, message=declined_because(message) if message else declined)
    if not question.is_form:
        if answers:
            raise UsageError(f"{question.tool} wants a permission, not answers.", hint="Give --allow or --deny.")
        return Answer(allow=True, scope=scope)
    return Answer(allow=True, answers=_chosen(form_questions(question.input), answers))


def answer_lines(question: Question, answer: Answer) -> list[str]:
    """The answer as text."""
    if not answer.allow:
        why = one_line(reason_in(answer.message), TEXT_CHARS)
        return [f"sent: declined: {why}" if why else "sent: declined"]
    if answer.answers is None:
        return [f"sent: {one_line(_allowed_words(question, answer), TEXT_CHARS)}"]
    return [
        f"sent: {one_line(asked, TEXT_CHARS)} {one_line(words, TEXT_CHARS)}" for asked, words in answer.answers.items()
    ]


def _allowed_words(question: Question, answer: Answer) -> str:
    if answer.scope == Scope.RUN:
        return "all of this run is allowed"
    if answer.scope == Scope.THREAD and question.tool_rule is not None:
        return f"always allowed in this thread: {question.tool_rule.words}"
    return f"{question.tool} is allowed"


def choose(typed: str, labels: Sequence[str], *, several: bool) -> str | None:
    """The labels whose numbers were typed, or the typed text itself. None: it is neither, so ask again."""
    parts = [part for part in typed.replace(",", " ").split() if part]
    if not parts:
        return None
    if not all(part.isascii() and part.isdigit() for part in parts):
        return typed
    numbers = [int(part) for part in parts]
    if (not several and len(numbers) > 1) or any(not 1 <= number <= len(labels) for number in numbers):
        return None
    return ", ".join(labels[number - 1] for number in dict.fromkeys(numbers))


def _chosen(questions: list[FormQuestion], answers: Iterable[str]) -> dict[str, str]:
    chosen = {}
    for given in answers:
        asked, words = _matched(questions, given)
        picked = words if words in asked.labels else choose(words, asked.labels, several=asked.several)
        if not picked:
            raise UsageError(
                f"{harmless(words)!r} does not answer the question {one_line(asked.text, TEXT_CHARS)}",
                hint=f"Give one of its {len(asked.labels)} options by label or number, or your own words.",
            )
        chosen[asked.text] = picked
    for number, asked in enumerate(questions, 1):
        if asked.text not in chosen:
            raise UsageError(
                f"This question is not answered: {one_line(asked.text, TEXT_CHARS)}",
                hint=f"Add {_answer_option(number, asked)}, or --deny the form.",
            )
    return chosen


def _matched(questions: list[FormQuestion], given: str) -> tuple[FormQuestion, str]:
    """The question that is answered, found by its text, header or number. A form's only question needs no name."""
    for number, asked in enumerate(questions, 1):
        for name in (asked.text, asked.header, str(number)):
            if name and given.startswith(f"{name}="):
                return asked, given[len(name) + 1 :].strip()
    if len(questions) == 1 and not _seems_to_name(questions[0], given):
        return questions[0], given.strip()
    listed = "; ".join(f"{number}. {one_line(asked.text, TEXT_CHARS)}" for number, asked in enumerate(questions, 1))
    raise UsageError(
        f"{one_line(given, TEXT_CHARS)!r} names none of the questions.",
        hint=f'The questions are: {listed}. --answer "QUESTION=ANSWER" takes a question by its text or its number.',
    )


def _seems_to_name(asked: FormQuestion, given: str) -> bool:
    """True for QUESTION=ANSWER with a typing error in QUESTION; False for an answer that just contains a `=`."""
    import difflib

    name, equals, words = given.partition("=")
    if not equals:
        return False
    if words.strip().lower() in (label.lower() for label in asked.labels):
        return True
    names = [each.lower() for each in (asked.text, asked.header) if each]
    return bool(difflib.get_close_matches(name.strip().lower(), names))
