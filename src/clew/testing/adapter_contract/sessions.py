"""Answers, and the sessions that hold them."""

from __future__ import annotations

import uuid
from dataclasses import replace

from clew.core.history import Role
from clew.core.outcome import Outcome
from clew.core.runs.answer import join_messages
from clew.core.runs.events import MessageSaid, SessionStarted, TextStreamed, ToolStarted
from clew.core.thread import Permissions
from clew.testing.adapter_contract.subject import Check, Subject, abilities, entries, session_file, turn


async def probe_finds_the_abilities(subject: Subject) -> None:
    can = await abilities(subject)
    assert can.is_agent
    assert can.resume
    assert can.version
    assert can.product


async def first_turn_answers_and_reports_its_session(subject: Subject) -> None:
    said = await turn(subject, "!say hello there")
    named = [event.session_id for event in said.of(SessionStarted) if isinstance(event, SessionStarted)]
    assert named == [said.session_id], "the id that we chose, if the agent lets us choose"
    assert session_file(subject, said.session_id) is not None
    assert said.text == "hello there"
    assert said.answered
    assert said.usage.output_tokens > 0
    assert said.usage.shown_tokens > 0
    assert said.exit_status == 0
    assert not said.tool_ran


async def pieces_add_up_to_the_message(subject: Subject) -> None:
    said = await turn(subject, "!slow 8 0.01")
    pieces = "".join(event.text for event in said.of(TextStreamed) if isinstance(event, TextStreamed))
    whole = join_messages(event.text for event in said.of(MessageSaid) if isinstance(event, MessageSaid))
    assert whole.split() == [f"w{number}" for number in range(8)]
    if (await abilities(subject)).streams:
        assert len(said.of(TextStreamed)) > 1
        assert pieces == whole
    else:
        assert pieces == ""


async def session_file_holds_the_turn(subject: Subject) -> None:
    said = await turn(subject, "  Odd: \t“é” 🎉 \r\n\n# New message\n!say hello there\n\n")
    held = entries(subject, said.session_id)
    assert [entry.id for entry in held if entry.is_prompt] == [said.prompt_id]
    assert join_messages(entry.text for entry in held if entry.role is Role.ASSISTANT) == said.text
    assert held[-1].complete


async def resume_continues_the_same_session(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    second = await turn(subject, "!say two", resume=first.session_id)
    assert second.answered
    held = entries(subject, first.session_id)
    assert [entry.id for entry in held if entry.is_prompt] == [first.prompt_id, second.prompt_id]
    assert [entry.text for entry in held if entry.role is Role.ASSISTANT] == ["one", "two"]


async def the_same_text_again_is_a_new_prompt(subject: Subject) -> None:
    first = await turn(subject, "!say on")
    path = session_file(subject, first.session_id)
    assert path is not None
    size = path.stat().st_size
    second = await turn(subject, "!say on", resume=first.session_id)
    [prompt] = [entry for entry in entries(subject, first.session_id, since=size) if entry.is_prompt]
    assert prompt.id == second.prompt_id
    ids = [entry.id for entry in entries(subject, first.session_id) if entry.is_prompt]
    places = [entry.offset for entry in entries(subject, first.session_id) if entry.is_prompt]
    assert ids[0] != ids[1] or (places[0] is not None and places[1] is not None and places[0] < size <= places[1])


async def usage_is_of_the_turn_not_of_the_session(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    second = await turn(subject, "!say two", resume=first.session_id)
    assert 0 < second.usage.output_tokens < 2 * first.usage.output_tokens
    assert 0 < second.usage.shown_tokens < 2 * first.usage.shown_tokens
    assert second.usage.cache_read_input_tokens > second.usage.input_tokens


async def fork_continues_in_an_independent_copy(subject: Subject) -> None:
    if not (await abilities(subject)).fork:
        return  # the engine never asks this agent for a fork
    first = await turn(subject, "!say one")
    path = session_file(subject, first.session_id)
    assert path is not None
    before = path.read_bytes()
    copy = await turn(subject, "!say two", resume=first.session_id, fork=True)
    assert copy.text == "two"
    assert copy.session_id != first.session_id
    assert path.read_bytes() == before, "the original is not changed"
    assert 0 < copy.usage.output_tokens < 2 * first.usage.output_tokens, "its own usage, without the original's"
    assert copy.usage.cache_read_input_tokens > copy.usage.input_tokens, "it was shown what the original holds"
    assert copy.prompt_id in [entry.id for entry in entries(subject, copy.session_id) if entry.is_prompt]
    await turn(subject, f"!say {'much more ' * 500}", resume=first.session_id)
    again = await turn(subject, "!say three", resume=copy.session_id)
    assert again.text == "three"
    assert again.usage.shown_tokens < copy.usage.shown_tokens + 500, "the original's later turns are not shown"


async def fork_ends_with_the_given_message(subject: Subject) -> None:
    can = await abilities(subject)
    if not can.rewind:
        return  # the engine never asks this agent for a fork that ends earlier
    assert can.fork
    said = [await turn(subject, "!say one")]
    for word in ("two", "three"):
        said.append(await turn(subject, f"!say {word}", resume=said[0].session_id))
    path = session_file(subject, said[0].session_id)
    assert path is not None
    before = path.read_bytes()
    ends = [entry.end_id for entry in entries(subject, said[0].session_id) if entry.end_id]
    assert len(set(ends)) == 3, "each complete turn has an id with which a copy can end"
    for place, end_id in enumerate(ends):
        copy = await turn(subject, "!say four", resume=said[0].session_id, fork=True, rewind_to=end_id)
        assert copy.text == "four"
        copied = [entry for entry in entries(subject, copy.session_id) if entry.text]
        assert [entry.id for entry in copied if entry.is_prompt] == [
            *(each.prompt_id for each in said[: place + 1]),
            copy.prompt_id,
        ]
        answers = [entry.text for entry in copied if entry.role is Role.ASSISTANT]
        assert answers == [*("one", "two", "three")[: place + 1], "four"]
        assert [entry.end_id for entry in copied if entry.end_id][:-1] == ends[: place + 1], "so a copy can be copied"
        assert 0 < copy.usage.output_tokens < 2 * said[0].usage.output_tokens, "its own usage, without the original's"
        assert copy.usage.cache_read_input_tokens > copy.usage.input_tokens, "the copied part is a cached prefix"
        again = await turn(subject, "!say five", resume=copy.session_id, fork=True, rewind_to=ends[0])
        held = [entry.text for entry in entries(subject, again.session_id) if entry.role is Role.ASSISTANT]
        assert held == ["one", "five"], "the copy was copied"
    assert path.read_bytes() == before, "the original is not changed"


async def message_that_is_not_in_the_session_is_rejected(subject: Subject) -> None:
    if not (await abilities(subject)).rewind:
        return
    first = await turn(subject, "!say one")
    said = await turn(subject, "!say two", resume=first.session_id, fork=True, rewind_to=str(uuid.uuid4()))
    assert (said.answered, said.outcome) == (False, Outcome.REJECTED)


async def unknown_session_is_not_forked(subject: Subject) -> None:
    if not (await abilities(subject)).fork:
        return
    said = await turn(subject, "!say one", resume=str(uuid.uuid4()), fork=True)
    assert (said.answered, said.outcome) == (False, Outcome.REJECTED)


async def unknown_session_is_rejected(subject: Subject) -> None:
    said = await turn(subject, "!say one", resume=str(uuid.uuid4()))
    assert not said.answered
    assert said.outcome is Outcome.REJECTED
    assert not said.tool_ran


async def invalid_id_finds_no_session(subject: Subject) -> None:
    await turn(subject, "!say one")
    config_dir = subject.adapter.config_dir(subject.environ)
    for word in ("last", "../x", "*", "-", ""):
        assert session_file(subject, word) is None
        assert subject.adapter.expected_session_path(config_dir, str(subject.work_dir), word) is None


async def session_of_another_directory_is_resumed_from_the_expected_path(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    path, elsewhere = session_file(subject, first.session_id), subject.work_dir / "elsewhere"
    assert path is not None
    content = path.read_bytes()
    elsewhere.mkdir()
    there = replace(subject, work_dir=elsewhere)
    place = subject.adapter.expected_session_path(
        subject.adapter.config_dir(subject.environ), str(elsewhere), first.session_id
    )
    if place is None:
        return  # the session cannot be imported, and the import says so
    path.unlink()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    assert session_file(there, first.session_id) == place
    second = await turn(there, "!say two", resume=first.session_id)
    assert second.text == "two"
    assert second.usage.cache_read_input_tokens > second.usage.input_tokens, "it was shown what the session holds"
    assert place.read_bytes().startswith(content), "and continued in that file"
    assert [entry.text for entry in entries(there, first.session_id) if entry.role is Role.ASSISTANT] == ["one", "two"]


async def session_is_listed_with_its_first_prompt(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    await turn(subject, "!say two", resume=first.session_id)
    [path] = subject.adapter.session_paths(subject.adapter.config_dir(subject.environ))
    head = subject.adapter.session_head(path)
    assert head is not None
    assert (head.id, head.work_dir, head.first_words) == (first.session_id, str(subject.work_dir), "!say one")


async def used_uuid_is_ignored(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    again = await turn(subject, "!say two", resume=first.session_id, user_uuid=first.user_uuid, close_at_once=True)
    if first.prompt_id == first.user_uuid:
        assert not again.answered, "a retry needs a new uuid"
    else:
        assert again.text == "two", "the agent does not know our uuids"


async def stopped_turn_keeps_its_text_and_can_be_resumed(subject: Subject) -> None:
    can_interrupt = subject.adapter.interrupt_line() is not None
    said = await turn(
        subject,
        "!slow 200 0.05" if can_interrupt else subject.directives.command("sleep 30"),
        permissions=Permissions.ALL,
        stop_at=TextStreamed if can_interrupt else ToolStarted,
    )
    assert not said.answered
    assert said.text if can_interrupt else said.tool_ran
    held = entries(subject, said.session_id)
    assert [entry.id for entry in held if entry.is_prompt] == [said.prompt_id]
    assert said.text.startswith(join_messages(entry.text for entry in held if entry.role is Role.ASSISTANT))
    again = await turn(subject, "!say on", resume=said.session_id)
    assert again.text == "on"


CHECKS: tuple[Check, ...] = (
    probe_finds_the_abilities,
    first_turn_answers_and_reports_its_session,
    pieces_add_up_to_the_message,
    session_file_holds_the_turn,
    resume_continues_the_same_session,
    the_same_text_again_is_a_new_prompt,
    usage_is_of_the_turn_not_of_the_session,
    fork_continues_in_an_independent_copy,
    fork_ends_with_the_given_message,
    message_that_is_not_in_the_session_is_rejected,
    unknown_session_is_not_forked,
    unknown_session_is_rejected,
    invalid_id_finds_no_session,
    session_of_another_directory_is_resumed_from_the_expected_path,
    session_is_listed_with_its_first_prompt,
    used_uuid_is_ignored,
    stopped_turn_keeps_its_text_and_can_be_resumed,
)
