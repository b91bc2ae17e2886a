"""Claude's output lines, as CLI 2.1.325 prints them, and malformed ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.agents.adapter import OUTPUT_CHARS
from clew.agents.claude.stream import ClaudeReader
from clew.core.costs.usage import NO_USAGE, RequestUsage, Usage
from clew.core.outcome import Outcome
from clew.core.runs.events import (
    AgentRetried,
    Compacted,
    Event,
    MessageSaid,
    QuestionAsked,
    QuestionWithdrawn,
    SessionStarted,
    TextStreamed,
    TokensCounted,
    ToolFinished,
    ToolStarted,
)

SID = "90fa6908-7f75-4fb0-b510-fd3912fe8d11"


def line(value: Any) -> bytes:
    return json.dumps(value).encode()


def streamed(event: dict[str, Any], **more: Any) -> dict[str, Any]:
    head = {"type": "stream_event", "event": event, "session_id": SID, "parent_tool_use_id": None, "uuid": "u"}
    return {**head, "api_message_id": "msg_1", **more}


def usage(read: int = 0, written: int = 0, output: int = 1, fresh: int = 0) -> dict[str, Any]:
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
    }


def message_start(message_id: str = "msg_1", **counts: int) -> dict[str, Any]:
    message = {"id": message_id, "type": "message", "role": "assistant", "content": [], "usage": usage(**counts)}
    return streamed({"type": "message_start", "message": message}, api_message_id=message_id, ttft_ms=15)


def message_delta(output: int, message_id: str = "msg_1") -> dict[str, Any]:
    event = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage(output=output)}
    return streamed(event, api_message_id=message_id)


def delta(text: str, **more: Any) -> dict[str, Any]:
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return streamed(event, **more)


def assistant(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": list(blocks),
        "stop_reason": None,
        "usage": usage(),
    }
    head = {"type": "assistant", "message": message, "parent_tool_use_id": None, "session_id": SID, "uuid": "entry-1"}
    return {**head, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tool_use(name: str = "Bash", tool_id: str = "toolu_1", **given_input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_id, "name": name, "input": given_input}


def tool_result(content: Any, *, is_error: bool = False, tool_id: str = "toolu_1", **more: Any) -> dict[str, Any]:
    block = {"tool_use_id": tool_id, "type": "tool_result", "content": content, "is_error": is_error}
    message = {"role": "user", "content": [block]}
    return {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": SID, "uuid": "u", **more}


INIT = {
    "type": "system",
    "subtype": "init",
    "cwd": "/project",
    "session_id": SID,
    "tools": ["Bash"],
    "mcp_servers": [],
    "model": "claude-sonnet-4-5",
    "permissionMode": "default",
    "claude_code_version": "2.1.325",
}
DENIED = tool_result(
    "no thanks",
    is_error=True,
    tool_use_result="Error: no thanks",
    tool_result_meta=[
        {
            "id": "toolu_1",
            "non_execution_kind": "permission-rule",
            "permission_decision": {"decision": "reject", "source": "user_reject"},
        }
    ],
)
ACCEPTED = tool_result(
    "hi",
    tool_use_result={"stdout": "hi", "stderr": "", "interrupted": False},
    tool_result_meta=[{"id": "toolu_1", "permission_decision": {"decision": "accept", "source": "user_temporary"}}],
)
BY_A_RULE = tool_result(
    "Permission to use Bash with command rm x has been denied.",
    is_error=True,
    tool_result_meta=[
        {
            "id": "toolu_1",
            "non_execution_kind": "permission-rule",
            "permission_decision": {"decision": "reject", "source": "config", "reason_type": "subcommandResults"},
        }
    ],
)
STOPPED = tool_result(
    "The user doesn't want to proceed with this tool use. […] this call was stopped while running, not refused",
    is_error=True,
    tool_use_result="User rejected tool use",
    tool_result_meta=[{"id": "toolu_1", "non_execution_kind": "user-rejected"}],
)
DISABLED = tool_result(
    "<tool_use_error>Error: No such tool available: Bash. Bash is disabled for this session, in subagents as well as "
    "here.</tool_use_error>",
    is_error=True,
)
BAD_INPUT = tool_result("<tool_use_error>InputValidationError: Bash failed […]</tool_use_error>", is_error=True)
NO_SUCH_TOOL = tool_result(
    "<tool_use_error>Error: No such tool available: Nope</tool_use_error>",
    is_error=True,
    tool_use_result="Error: No such tool available: Nope",
)
ASKED = {
    "type": "control_request",
    "request_id": "q1",
    "request": {
        "subtype": "can_use_tool",
        "tool_name": "Bash",
        "display_name": "Bash",
        "input": {"command": "touch x", "description": "d"},
        "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}],
        "tool_use_id": "toolu_1",
    },
}
SYNTHETIC = {
    "type": "assistant",
    "message": {
        "id": "cfebfb70",
        "model": "<synthetic>",
        "role": "assistant",
        "stop_reason": "stop_sequence",
        "type": "message",
        "usage": usage(output=0),
        "content": [text("Failed to authenticate. API Error: 401 nope")],
    },
    "parent_tool_use_id": None,
    "session_id": SID,
    "uuid": "644d485a",
    "error": "authentication_failed",
    "is_api_error_message": True,
    "api_error_status": 401,
    "api_error_type": "authentication_error",
}


def result(**more: Any) -> dict[str, Any]:
    """With the type last, as the CLI prints it."""
    return {
        "duration_api_ms": 24,
        "stop_reason": "end_turn",
        "session_id": SID,
        "total_cost_usd": 0.5,
        "usage": usage(read=100, written=20, output=11, fresh=3),
        "terminal_reason": "completed",
        "is_error": False,
        "num_turns": 1,
        "subtype": "success",
        "api_error_status": None,
        "result": "hello",
        "type": "result",
        **more,
    }


REJECTED = {
    "type": "result",
    "subtype": "error_during_execution",
    "duration_ms": 0,
    "duration_api_ms": 0,
    "is_error": True,
    "num_turns": 0,
    "stop_reason": None,
    "session_id": "55f720d1",
    "total_cost_usd": 0,
    "usage": usage(output=0),
    "errors": ["No conversation found with session ID: 55f720d1"],
}


def read(*values: Any) -> tuple[ClaudeReader, list[Event]]:
    reader = ClaudeReader()
    return reader, [event for value in values for event in reader.feed(line(value))]


def end(reader: ClaudeReader, *, resumed: bool = True, exit_status: int | None = 0, stderr: str = "") -> Any:
    return reader.result(resumed=resumed, exit_status=exit_status, stderr=stderr)


class TestLines:
    def test_init_reports_the_session_and_the_model(self) -> None:
        assert read(INIT)[1] == [SessionStarted(SID, "claude-sonnet-4-5")]

    def test_text_deltas_are_pieces_and_a_text_block_is_a_message_with_its_entrys_id(self) -> None:
        _, events = read(message_start(), delta("hel"), delta("lo"), assistant(text("hello")), message_delta(11))
        spoken = [event for event in events if not isinstance(event, TokensCounted)]
        assert spoken == [TextStreamed("hel"), TextStreamed("lo"), MessageSaid("hello", "entry-1")]

    def test_tokens_add_up_with_every_request_of_the_agent(self) -> None:
        first, second = message_start(read=100, written=20), message_start("msg_2", read=120)
        _, events = read(first, message_delta(11), second, message_delta(5, "msg_2"))
        counted = [event.usage for event in events if isinstance(event, TokensCounted)]
        assert [usage.shown_tokens for usage in counted] == [120, 120, 240, 240]
        assert [usage.output_tokens for usage in counted] == [1, 11, 12, 16]

    @pytest.mark.parametrize(
        "event",
        [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_stop"},
        ],
    )
    def test_other_stream_events_give_no_event(self, event: dict[str, Any]) -> None:
        assert read(streamed(event))[1] == []

    def test_thinking_and_empty_text_are_not_said(self) -> None:
        assert read(assistant({"type": "thinking", "thinking": "hm", "signature": "x"}, text("")))[1] == []

    def test_a_tool_call_may_be_running_until_its_result_arrives(self) -> None:
        reader, events = read(assistant(tool_use(command="ls")))
        assert events == [ToolStarted("toolu_1", "Bash", {"command": "ls"})]
        assert reader.tool_ran

    def test_a_tool_that_ran(self) -> None:
        reader, events = read(assistant(tool_use()), ACCEPTED)
        assert events[-1] == ToolFinished("toolu_1", False, "hi", ran=True)
        assert reader.tool_ran

    def test_a_tool_that_failed_has_run(self) -> None:
        reader, events = read(assistant(tool_use()), tool_result("Exit code 1", is_error=True))
        assert events[-1] == ToolFinished("toolu_1", True, "Exit code 1", ran=True)
        assert reader.tool_ran

    @pytest.mark.parametrize(
        ("refusal", "declined"),
        [(DENIED, True), (BY_A_RULE, True), (DISABLED, True), (NO_SUCH_TOOL, False), (BAD_INPUT, False)],
        ids=["a person", "a rule", "disabled", "no such tool", "bad input"],
    )
    def test_a_tool_that_was_denied_or_does_not_exist_has_not_run(
        self, refusal: dict[str, Any], declined: bool
    ) -> None:
        reader, events = read(assistant(tool_use()), refusal)
        finished = events[-1]
        assert isinstance(finished, ToolFinished)
        assert (finished.ran, finished.is_error, finished.declined) == (False, True, declined)
        assert not reader.tool_ran

    def test_a_tool_that_was_stopped_while_it_ran_has_run_and_nobody_declined_it(self) -> None:
        reader, events = read(assistant(tool_use()), STOPPED)
        finished = events[-1]
        assert isinstance(finished, ToolFinished)
        assert (finished.ran, finished.is_error, finished.declined) == (True, True, False)
        assert reader.tool_ran

    @pytest.mark.parametrize("is_error", [True, False])
    def test_a_tool_that_prints_the_clis_own_text_has_run(self, is_error: bool) -> None:
        printed = "<tool_use_error>Error: No such tool available: Bash. Bash is disabled</tool_use_error>"
        accepted = [{"id": "toolu_1", "permission_decision": {"decision": "accept", "source": "config"}}]
        for use, more in (
            (tool_use(), {"tool_result_meta": accepted}),
            (tool_use("mcp__there__do"), {}),  # an older CLI adds no metadata
        ):
            reader, events = read(assistant(use), tool_result(printed, is_error=is_error, **more))
            finished = events[-1]
            assert isinstance(finished, ToolFinished)
            assert (finished.ran, finished.declined) == (True, False)
            assert reader.tool_ran

    def test_a_denied_tool_does_not_hide_one_that_ran(self) -> None:
        ran = tool_result("ok", tool_id="toolu_2")
        reader, _ = read(assistant(tool_use()), assistant(tool_use(tool_id="toolu_2")), ran, DENIED)
        assert reader.tool_ran

    def test_the_beginning_of_a_tools_output_is_kept_and_other_blocks_are_named(self) -> None:
        blocks = [text("a" * 3000), {"type": "image", "source": {}}]
        [finished] = read(tool_result(blocks))[1]
        assert isinstance(finished, ToolFinished)
        assert finished.output == "a" * OUTPUT_CHARS
        [finished] = read(tool_result(list(reversed(blocks))))[1]
        assert isinstance(finished, ToolFinished)
        assert finished.output.startswith("[image]\naaa")

    def test_a_subagents_text_is_not_the_answer_but_its_tools_count(self) -> None:
        inside = {"parent_tool_use_id": "toolu_9", "agent_id": "a1", "subagent_type": "general-purpose"}
        reader, events = read(delta("sub", **inside), assistant(text("sub hello"), tool_use("Write"), **inside))
        assert events == [ToolStarted("toolu_1", "Write", {})]
        assert reader.tool_ran

    def test_a_permission_request_asks(self) -> None:
        assert read(ASKED)[1] == [
            QuestionAsked("q1", "Bash", {"command": "touch x", "description": "d"}, is_form=False, tool_id="toolu_1")
        ]

    def test_a_question_form_asks_for_answers(self) -> None:
        request = {"subtype": "can_use_tool", "tool_name": "AskUserQuestion", "input": {"questions": []}}
        [asked] = read({"type": "control_request", "request_id": "q2", "request": request})[1]
        assert asked == QuestionAsked("q2", "AskUserQuestion", {"questions": []}, is_form=True)

    def test_other_control_requests_give_no_event(self) -> None:
        assert read({"type": "control_request", "request_id": "q", "request": {"subtype": "hook_callback"}})[1] == []

    def test_a_cancelled_request_is_withdrawn(self) -> None:
        assert read({"type": "control_cancel_request", "request_id": "q1"})[1] == [QuestionWithdrawn("q1")]

    def test_the_agents_own_retry_is_reported(self) -> None:
        retry = {
            "type": "system",
            "subtype": "api_retry",
            "attempt": 2,
            "max_retries": 10,
            "retry_delay_ms": 1250.5,
            "error_status": 529,
            "error": "overloaded",
            "session_id": SID,
        }
        assert read(retry)[1] == [AgentRetried(2, 1.2505, "overloaded")]

    def test_a_compaction_is_reported(self) -> None:
        assert read({"type": "system", "subtype": "compact_boundary", "compact_metadata": {}})[1] == [Compacted()]

    def test_synthetic_messages_are_not_part_of_the_answer(self) -> None:
        assert read(SYNTHETIC)[1] == []

    @pytest.mark.parametrize(
        "value",
        [
            {"type": "command_lifecycle", "state": "queued", "session_id": SID},
            {"type": "system", "subtype": "status", "status": "requesting"},
            {"type": "system", "subtype": "background_tasks_changed", "tasks": []},
            {"type": "rate_limit_event", "rate_limit_info": {}},
            {"type": "brand_new"},
            {},
            [],
            "text",
            7,
            None,
        ],
    )
    def test_unknown_lines_give_no_event(self, value: Any) -> None:
        reader, events = read(value)
        assert events == []
        assert not reader.finished


class TestResult:
    def test_a_good_result_is_a_success_with_its_usage_and_cost(self) -> None:
        reader, events = read(INIT, assistant(text("hello")), result())
        assert reader.finished
        assert isinstance(events[-1], MessageSaid)
        ended = end(reader)
        assert ended.diagnosis.answered
        assert ended.usage == Usage(3, 11, 100, 20)
        assert (ended.cost_usd, ended.cost_total_usd) == (None, 0.5)

    def test_a_cost_since_the_last_result_is_the_runs_own(self) -> None:
        since = {"m1": {"costUSD": 0.01}, "m2": {"costUSD": 0.02}}
        assert end(read(result(model_usage_since_last_result=since))[0]).cost_usd == pytest.approx(0.03)

    def test_a_failed_result_is_classified_by_the_synthetic_message(self) -> None:
        failed = result(is_error=True, api_error_status=401, terminal_reason="api_error", result="Failed …")
        ended = end(read(SYNTHETIC, failed)[0], exit_status=1)
        assert (ended.diagnosis.answered, ended.diagnosis.outcome) == (False, Outcome.AUTH)

    def test_a_rejected_resume_is_recognised_by_its_structure(self) -> None:
        ended = end(read(REJECTED)[0], exit_status=1)
        assert ended.diagnosis.outcome is Outcome.REJECTED
        assert ended.diagnosis.message == "No conversation found with session ID: 55f720d1"
        assert read(REJECTED)[1] == []  # its session id must not be used

    def test_without_a_result_the_usage_comes_from_the_messages_each_counted_once(self) -> None:
        reader, _ = read(
            message_start("msg_1", read=10, written=5),
            assistant(text("a")),
            assistant(text("b")),
            message_delta(7, "msg_1"),
            message_start("msg_2", read=15),
            message_delta(3, "msg_2"),
            message_start("msg_2", read=15),
            message_delta(3, "msg_2"),
        )
        ended = end(reader, exit_status=-9)
        assert not ended.diagnosis.answered
        assert ended.usage == Usage(0, 10, 25, 5)
        assert (ended.cost_usd, ended.cost_total_usd) == (None, None)

    def test_an_interrupted_message_is_counted_although_no_result_includes_it(self) -> None:
        """Seen with the real CLI: the result of an interrupted turn omits the message, and so do later totals."""
        stopped = result(is_error=True, usage=usage(read=10, written=5, output=7), total_cost_usd=0.5)
        reader, _ = read(
            message_start("msg_1", read=10, written=5),
            message_delta(7),
            message_start("msg_2", read=15, written=2),
            stopped,
        )
        ended = end(reader, exit_status=1)
        assert (ended.usage, ended.uncounted) == (Usage(0, 8, 25, 7), Usage(0, 1, 15, 2))
        assert ended.requests == RequestUsage(Usage(0, 7, 10, 5), Usage(0, 1, 15, 2), 2)
        assert ended.requests.context_tokens == 18

    def test_a_good_results_own_count_is_used(self) -> None:
        """If the agent retried a message that was cut off, the result already includes it."""
        reader, _ = read(message_start("msg_1", read=500), message_start("msg_2", read=500), result())
        ended = end(reader)
        assert (ended.usage, ended.uncounted) == (Usage(3, 11, 100, 20), NO_USAGE)

    def test_empty_output_is_not_an_answer(self) -> None:
        ended = end(ClaudeReader(), stderr="boom\nmore")
        assert (ended.diagnosis.answered, ended.diagnosis.outcome, ended.usage) == (False, None, NO_USAGE)
        assert ended.diagnosis.message == "more"  # the last line usually says why it died

    def test_a_background_task_brings_a_second_result_and_both_count(self) -> None:
        """Seen with the real CLI: a background subagent ends after the answer, and the model is asked again."""
        second = result(
            usage=usage(read=300, written=1, output=2),
            total_cost_usd=0.75,
            origin={"kind": "task-notification", "producer": "session-task"},
        )
        reader, events = read(INIT, assistant(text("one")), result(), INIT, assistant(text("two")), second)
        assert [event.text for event in events if isinstance(event, MessageSaid)] == ["one", "two"]
        ended = end(reader)
        assert ended.diagnosis.answered
        assert ended.usage == Usage(3, 13, 400, 21)
        assert ended.cost_total_usd == 0.75

    def test_an_answer_stays_an_answer_when_a_background_tasks_own_turn_fails_after_it(self) -> None:
        failed = result(is_error=True, api_error_status=529, origin={"kind": "task-notification"}, result="Overloaded")
        assert end(read(assistant(text("one")), result(), failed)[0]).diagnosis.answered


class TestBadBytes:
    @pytest.mark.parametrize(
        "raw",
        [b"", b"{", b"\x00" * 50, b"\xff\xfe{}", b"not json", b'{"type":"assistant"', b"[" * 1000, b"\xed\xa0\x80"],
    )
    def test_malformed_lines_give_no_event(self, raw: bytes) -> None:
        assert ClaudeReader().feed(raw) == []

    def test_nan_and_infinity_do_not_lose_a_line(self) -> None:
        raw = line(result()).replace(b'"duration_api_ms": 24', b'"duration_api_ms": NaN, "x": -Infinity')
        reader = ClaudeReader()
        assert reader.feed(raw) == []
        assert reader.finished
        assert end(reader).diagnosis.answered

    def test_lone_surrogates_do_not_lose_a_line(self) -> None:
        [event] = ClaudeReader().feed(line(delta("a\ud83dz")))
        assert event == TextStreamed("a\ud83dz")

    def test_bytes_that_are_not_utf_8_do_not_lose_a_line(self) -> None:
        [event] = ClaudeReader().feed(line(delta("aQz")).replace(b"Q", b"\xff"))
        assert event == TextStreamed("a\ufffdz")

    def test_a_line_of_10_mb_is_read_whole(self) -> None:
        [event] = ClaudeReader().feed(line(assistant(text("x" * 10_000_000))))
        assert isinstance(event, MessageSaid)
        assert len(event.text) == 10_000_000

    @pytest.mark.parametrize("depth", [500, 5_000, 100_000])
    def test_deeply_nested_json_gives_no_event(self, depth: int) -> None:
        nested = b"[" * depth + b"]" * depth
        for kind in (b"system", b"assistant", b"brand_new"):
            assert ClaudeReader().feed(b'{"type":"' + kind + b'","message":' + nested + b"}") == []


KNOWN_LINES = [
    INIT,
    message_start(),
    message_delta(3),
    delta("x"),
    assistant(text("x"), tool_use()),
    ACCEPTED,
    DENIED,
    ASKED,
    SYNTHETIC,
    REJECTED,
    result(model_usage_since_last_result={"m": {"costUSD": 1}}),
    {"type": "control_cancel_request", "request_id": "q"},
    {"type": "system", "subtype": "api_retry", "attempt": 1, "retry_delay_ms": 1, "error": "x"},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return [(*here, key) for key, _ in children] + [p for key, child in children for p in paths(child, (*here, key))]


def with_value(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return copy


@st.composite
def malformed_lines(draw: st.DrawFn) -> bytes:
    known = draw(st.sampled_from(KNOWN_LINES))
    return line(with_value(known, draw(st.sampled_from(paths(known))), draw(JSON)))


class TestWrongTypes:
    @settings(max_examples=1500, deadline=None)
    @given(malformed_lines())
    @example(b'{"type": []}')
    @example(b'{"type": {}, "x": 1}')
    @example(b'{"type":"system","subtype":"api_retry","attempt":1e999}')
    @example(b'{"type":"result","usage":{"input_tokens":Infinity}}')
    @example(b'{"type":"result","usage":{"input_tokens":"many"}}')
    @example(b'{"type":"result","is_error":true,"errors":7}')
    @example(b'{"type":"result","model_usage_since_last_result":{"m":{"costUSD":"dear"}}}')
    def test_no_line_makes_it_raise_while_reading_or_at_the_end(self, raw: bytes) -> None:
        reader = ClaudeReader()
        events = reader.feed(raw)
        assert all(isinstance(event, Event) for event in events)
        end(reader)
        reader.feed(line(result()))
        end(reader)

    @settings(max_examples=300, deadline=None)
    @given(st.binary(max_size=60) | JSON.map(line))
    def test_no_bytes_make_it_raise(self, raw: bytes) -> None:
        assert ClaudeReader().feed(raw) == []


NEWS = {"type": "system", "subtype": "task_notification", "task_id": "b1", "status": "stopped", "session_id": SID}


def test_news_of_a_task_that_ended_with_an_earlier_process_are_no_answer() -> None:
    """The CLI takes note of them in a turn of its own, before that of our prompt."""
    reader, _ = read(NEWS, result(num_turns=0, result="", usage=usage(output=0)))
    assert not reader.finished, "our prompt comes now"
    for value in (message_start(read=100, written=20, fresh=3), result()):
        reader.feed(line(value))
    found = reader.result(resumed=True, exit_status=0, stderr="")
    assert reader.finished and found.diagnosis.answered
    assert found.usage.output_tokens == 11


def test_a_prompt_that_was_not_passed_on_is_no_answer() -> None:
    reader, _ = read(result(num_turns=0, result="", usage=usage(output=0)))
    assert reader.finished
    assert not reader.result(resumed=True, exit_status=0, stderr="").diagnosis.answered
