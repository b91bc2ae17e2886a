"""Tools, permissions and questions. An agent that cannot ask is restricted only by its launch flags."""

from __future__ import annotations

from clew.core.runs.events import QuestionAsked, ToolFinished, ToolStarted
from clew.core.runs.permissions import Answer
from clew.core.thread import Permissions
from clew.testing.adapter_contract.subject import Check, Subject, abilities, turn


async def tool_runs_when_allowed(subject: Subject) -> None:
    asks = (await abilities(subject)).asks
    said = await turn(
        subject,
        subject.directives.command("touch made"),
        permissions=Permissions.ASK if asks else Permissions.ALL,
        person=lambda question: Answer(allow=True),
    )
    [started] = said.of(ToolStarted)
    assert isinstance(started, ToolStarted)
    assert f"!tool {started.name} " in subject.directives.command("")
    assert len(said.of(QuestionAsked)) == (1 if asks else 0)
    assert [event.ran for event in said.of(ToolFinished) if isinstance(event, ToolFinished)] == [True]
    assert said.tool_ran
    assert (subject.work_dir / "made").exists()


async def tool_does_not_run_when_declined(subject: Subject) -> None:
    said = await turn(
        subject,
        subject.directives.command("touch made"),
        person=lambda question: Answer(allow=False, message="Not allowed here."),
    )
    assert not (subject.work_dir / "made").exists()
    if (await abilities(subject)).asks:
        assert not said.tool_ran, "so a fallback would still be safe"
        [finished] = said.of(ToolFinished)
        assert isinstance(finished, ToolFinished)
        assert not finished.ran
        assert "Not allowed here." in finished.output
    else:
        assert said.answered, "the model was told that it failed, and answered"


async def form_is_asked_and_its_answer_arrives(subject: Subject) -> None:
    said = await turn(
        subject,
        subject.directives.form,
        person=lambda question: Answer(allow=True, answers={"Which one?": "Right"}),
    )
    assert said.answered
    if (await abilities(subject)).asks:
        [question] = said.of(QuestionAsked)
        assert isinstance(question, QuestionAsked)
        assert question.is_form
        assert "Right" in said.text
    else:
        assert not said.of(QuestionAsked)
        assert "Right" not in said.text


async def edits_are_allowed_only_in_the_work_directory(subject: Subject) -> None:
    made, outside = subject.work_dir / "made.txt", subject.work_dir.parent / "outside.txt"
    said = await turn(
        subject,
        subject.directives.write(made, "x"),
        permissions=Permissions.EDITS,
        person=lambda question: Answer(allow=False),
    )
    assert not said.of(QuestionAsked)
    assert made.read_text().strip() == "x"
    said = await turn(
        subject,
        subject.directives.write(outside, "x"),
        permissions=Permissions.EDITS,
        person=lambda question: Answer(allow=False),
    )
    assert len(said.of(QuestionAsked)) == (1 if (await abilities(subject)).asks else 0)
    assert not outside.exists()


async def read_only_changes_nothing(subject: Subject) -> None:
    made = subject.work_dir / "made.txt"
    said = await turn(
        subject,
        subject.directives.write(made, "x"),
        permissions=Permissions.READ_ONLY,
        person=lambda question: Answer(allow=True),
    )
    assert not made.exists()
    assert not said.tool_ran


CHECKS: tuple[Check, ...] = (
    tool_runs_when_allowed,
    tool_does_not_run_when_declined,
    form_is_asked_and_its_answer_arrives,
    edits_are_allowed_only_in_the_work_directory,
    read_only_changes_nothing,
)
