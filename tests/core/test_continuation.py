"""Clew's own prompts are told apart from what a user said."""

from __future__ import annotations

import pytest

from clew.core.continuation import CONTINUE, CONTINUE_PAIR, words_of_user
from clew.core.ids import RunId, ThreadId
from clew.core.pairs import prompts as pair_prompts
from clew.core.reviews import prompts as review_prompts
from clew.core.runs.permissions import Answer
from clew.core.runs.question import Question, QuestionState, as_message


def question(tool: str, given: dict[str, object], *, is_form: bool) -> Question:
    return Question("q", RunId("r"), ThreadId("t"), tool, given, is_form, QuestionState.OPEN, 1.0)


ASKED = question("Bash", {"command": "make"}, is_form=False)
FORM = question("AskUserQuestion", {"questions": [{"question": "Which?"}]}, is_form=True)


@pytest.mark.parametrize(
    "prompt",
    [
        CONTINUE,
        CONTINUE_PAIR,
        pair_prompts.invalid_answer("It is no JSON."),
        review_prompts.again("It is no JSON."),
        as_message(ASKED, Answer(allow=True)),
        as_message(ASKED, Answer(allow=False, message="Not now.")),
        as_message(FORM, Answer(allow=True, answers={"Which?": "This."})),
        as_message(FORM, Answer(allow=False)),
    ],
)
def test_a_prompt_with_which_clew_continues_has_no_words_of_the_user(prompt: str) -> None:
    assert words_of_user(prompt) == ""


def test_a_message_that_follows_clews_words_is_the_users() -> None:
    told = pair_prompts.with_news(CONTINUE_PAIR, "mark", message="Leave the old API in.")
    assert words_of_user(told) == "The person who gave the task says:\n\nLeave the old API in."


@pytest.mark.parametrize(
    "prompt",
    [
        "Your answer does not fit: think again.",
        "Your answer does not fit what was asked for: I wanted a list.",
        "You were cut off. Go on.",
        f"What does this mean? {CONTINUE}",
        f"{CONTINUE} Please.",
        " \n",
    ],
)
def test_what_a_user_said_stays_as_it_is(prompt: str) -> None:
    assert words_of_user(prompt) == prompt
