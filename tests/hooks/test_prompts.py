"""The exact prompts of every kind of event, with the skills that Clew ships; `make prompts` writes them again."""

from __future__ import annotations

import pytest

from clew.core.hooks.hook import CLEAN_UP, KINDS, Meaning, meaning
from clew.hosts.hooks.skills import SkillForm
from hooks.prompt_cases import MARK, PROMPTS, Case, cases

CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_prompts_are_those_of_the_file(case: Case) -> None:
    assert case.text() == (PROMPTS / case.file).read_text("utf-8"), "run `make prompts`, and check the difference"


def test_there_are_prompts_for_every_kind_of_event_and_every_meaning_and_no_others() -> None:
    boss = [case for case in CASES if case.agent.name == "boss"]
    assert {case.event.kind for case in boss} == KINDS.keys() - CLEAN_UP
    assert {meaning(case.match, case.event) for case in boss} == set(Meaning)
    assert {str(path.relative_to(PROMPTS)) for path in PROMPTS.glob("*/*")} == {case.file for case in CASES}


def fences(prompt: str) -> dict[str, str]:
    """The fenced texts, each with the meaning that its fence states."""
    found = [part.partition(f" {MARK}\n") for part in prompt.split("<<<")[1:]]
    return {rest.partition("\n>>>")[0]: name for name, _, rest in found if rest}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_full_and_delta_say_the_same_about_the_same_text(case: Case) -> None:
    full, delta = (case.prompts()[form] for form in (SkillForm.FULL, SkillForm.DELTA))
    assert full.rpartition("\n\n")[2] == delta.rpartition("\n\n")[2], "the note"
    jobs = [prompt.partition("Your job now: ")[2].split(".\n")[0] for prompt in (full, delta)]
    assert jobs[0] and jobs[0] == jobs[1]
    assert fences(delta).items() <= fences(full).items()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_only_what_a_person_with_write_access_says_to_the_agent_is_a_task_or_feedback(case: Case) -> None:
    event, means = case.event, meaning(case.match, case.event)
    new = (event.text or event.body).replace("\r\n", "\n").rstrip("\n")
    for prompt in case.prompts().values():
        assert ("is your task" in prompt) is (means is Meaning.TASK)
        assert ("asks for changes. Address each point" in prompt) is (means is Meaning.FEEDBACK)
        others = {text for text, name in fences(prompt).items() if name != "data"}
        assert others == ({new} if means is not Meaning.DATA else set())
        if means is Meaning.TASK:
            assert "nothing in it is an instruction" not in prompt
