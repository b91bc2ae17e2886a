"""Open questions of agents on the command line: how they are shown, and an answer made of options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clew.cli.output import SHORT_ID, harmless, one_line, stamp
from clew.core.record import Record
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.core.permissions import Answer
    from clew.core.question import Question

TEXT_CHARS = 200  # of a question or an option
NAME_CHARS = 60  # longer ones are named by number
FIELDS = 40  # of a tool's input, one by one
UNREADABLE = "Your questions"  # what an answer is filed under when not one question of a form can be read
UNREAD = "Not all of this form can be read. As it came:"


class Item(Record):
    """One question of a form."""

    text: str
    header: str
    labels: tuple[str, ...]
    abouts: tuple[str, ...]  # what each option means
    several: bool

    def options(self) -> list[str]:
        """A line each."""
        return [
            f"  {number}. {one_line(label, TEXT_CHARS)}{f': {one_line(about, TEXT_CHARS)}' if about else ''}"
            for number, (label, about) in enumerate(zip(self.labels, self.abouts, strict=True), 1)
        ]


def items(form: Mapping[str, Any]) -> list[Item]:
    """A form's questions, as far as they make sense; when none does, one that can be answered in words."""
    return [item for item, _ in _read(form) if item] or [Item(UNREADABLE, "", (), (), several=False)]


def is_readable(form: Mapping[str, Any]) -> bool:
    """All of it makes sense."""
    found = _read(form)
    return bool(found) and all(whole for _, whole in found)


def _read(form: Mapping[str, Any]) -> list[tuple[Item | None, bool]]:
    """Each of its entries, and whether all of that entry makes sense. An agent may have sent anything."""
    given = form.get("questions")
    return [_item(each) for each in given] if isinstance(given, list | tuple) else []


def _item(given: object) -> tuple[Item | None, bool]:
    if not isinstance(given, Mapping) or not _words(given.get("question")).strip():
        return None, False
    listed = given.get("options")
    entries = listed if isinstance(listed, list | tuple) else ()
    options = [each if isinstance(each, Mapping) else {"label": each} for each in entries]
    options = [option for option in options if _words(option.get("label")).strip()]
    item = Item(
        text=_words(given["question"]),
        header=_words(given.get("header")),
        labels=tuple(_words(option["label"]) for option in options),
        abouts=tuple(_words(option.get("description")) for option in options),
        several=bool(given.get("multiSelect")),
    )
    return item, len(options) == len(entries) and (listed is None or isinstance(listed, list | tuple))


def _words(value: object) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def lines(question: Question) -> list[str]:
    """What is asked, for a person: a form with its options, a permission with all that it is for."""
    if question.is_form:
        asked = [line for item in items(question.input) for line in (one_line(item.text, TEXT_CHARS), *item.options())]
        return asked if is_readable(question.input) else [*as_it_came(question.input), *asked]
    from clew.cli.tools import told

    about = told(question.input)
    head = f"{one_line(question.tool, NAME_CHARS)} wants permission{f': {about}' if about else ''}"
    return [head, *(f"  {line}" for line in _beside(question.input, about))]


def as_it_came(form: Mapping[str, Any]) -> list[str]:
    from clew.cli.person import cut, described

    return [UNREAD, *(f"  {line}" for line in cut(described(form)).splitlines())]


def _beside(given: Mapping[str, Any], about: str) -> list[str]:
    """Every field that the line above does not show whole. What is long is cut, and says so."""
    import json

    from clew.cli.person import cut, described
    from clew.cli.tools import telling

    main = telling(given)
    if main is None and json.dumps(given, ensure_ascii=False) == about:
        return []
    rest = {key: value for key, value in given.items() if key != main or value != about}
    said = [line for key, value in list(rest.items())[:FIELDS] for line in cut(described({key: value})).splitlines()]
    return [*said, f"… {len(rest) - FIELDS} more fields"] if len(rest) > FIELDS else said


def how_to_answer(question: Question, *, several: bool = False) -> str:
    """The command that does. `several`: its run asks more than this."""
    which = f" --question {question.id}" if several else ""
    command = f"clew runs answer {question.run_id[:SHORT_ID]}{which}"
    if not question.is_form:
        return f"{command} --allow, or --deny"
    given = (_option(number, item) for number, item in enumerate(items(question.input), 1))
    return f"{command} {' '.join(given)}, or --deny"


def _option(number: int, item: Item) -> str:
    """An option that answers it, to be typed or pasted: quoted, since its words are an agent's."""
    import shlex

    name = item.text if one_line(item.text, NAME_CHARS) == item.text else str(number)
    first = item.labels[0] if item.labels else "…"
    return f"--answer {shlex.quote(f'{name}={first if one_line(first, NAME_CHARS) == first else 1}')}"


def as_object(question: Question, *, live: bool) -> dict[str, Any]:
    """As the HTTP API has it. `live`: the run that asked is going on."""
    told = question.as_dict() | {
        "asked_at": stamp(question.asked_at),
        "answered_at": stamp(question.answered_at),
        "live": live,
    }
    return {key: value for key, value in told.items() if key != "reply"}


def answer_from(question: Question, *, allow: bool | None, message: str | None, answers: Sequence[str]) -> Answer:
    """The answer that the options give. Raises UsageError when they do not fit what is asked."""
    from clew.core.permissions import Answer

    if message is not None and allow is not False:
        raise UsageError("--message goes with --deny.", hint="An answer to a form goes in --answer.")
    if answers and allow is False:
        raise UsageError("--deny leaves a form unanswered.", hint="Give either --deny or --answer.")
    if allow is False:
        from clew.cli.person import DECLINED, FORM_DECLINED

        return Answer(allow=False, message=message or (FORM_DECLINED if question.is_form else DECLINED))
    if not question.is_form:
        if answers:
            raise UsageError(f"{question.tool} wants a permission, not answers.", hint="Give --allow or --deny.")
        return Answer(allow=True)
    return Answer(allow=True, answers=_chosen(items(question.input), answers))


def sent(question: Question, answer: Answer) -> list[str]:
    """What an answer says, a line each."""
    if not answer.allow:
        return [f"sent: declined: {one_line(answer.message, TEXT_CHARS)}" if answer.message else "sent: declined"]
    if answer.answers is None:
        return [f"sent: {one_line(question.tool, NAME_CHARS)} is allowed"]
    return [
        f"sent: {one_line(asked, TEXT_CHARS)} {one_line(words, TEXT_CHARS)}" for asked, words in answer.answers.items()
    ]


def _chosen(asked: list[Item], answers: Iterable[str]) -> dict[str, str]:
    from clew.cli.person import choose

    chosen = {}
    for given in answers:
        item, words = _matched(asked, given)
        picked = words if words in item.labels else choose(words, item.labels, several=item.several)
        if not picked:
            raise UsageError(
                f"{harmless(words)!r} is no answer to {one_line(item.text, TEXT_CHARS)}",
                hint=f"Give one of its {len(item.labels)} options by label or number, or your own words.",
            )
        chosen[item.text] = picked
    for number, item in enumerate(asked, 1):
        if item.text not in chosen:
            raise UsageError(
                f"Not answered: {one_line(item.text, TEXT_CHARS)}",
                hint=f"Add {_option(number, item)}, or --deny the form.",
            )
    return chosen


def _matched(asked: list[Item], given: str) -> tuple[Item, str]:
    """The question that it answers: by its text, its header or its number; the only one needs no name."""
    for number, item in enumerate(asked, 1):
        for name in (item.text, item.header, str(number)):
            if name and given.startswith(f"{name}="):
                return item, given[len(name) + 1 :].strip()
    if len(asked) == 1 and not _seems_to_name(asked[0], given):
        return asked[0], given.strip()
    listed = "; ".join(f"{number}. {one_line(item.text, TEXT_CHARS)}" for number, item in enumerate(asked, 1))
    raise UsageError(
        f"{one_line(given, TEXT_CHARS)!r} names none of the questions.",
        hint=f'Asked is: {listed}. --answer "QUESTION=ANSWER" takes a question by its text or its number.',
    )


def _seems_to_name(item: Item, given: str) -> bool:
    """QUESTION=ANSWER with a slip in QUESTION, rather than words that happen to hold a `=`."""
    import difflib

    name, equals, words = given.partition("=")
    if not equals:
        return False
    if words.strip().lower() in (label.lower() for label in item.labels):
        return True
    names = [each.lower() for each in (item.text, item.header) if each]
    return bool(difflib.get_close_matches(name.strip().lower(), names))
