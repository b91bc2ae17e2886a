"""The requests to the model within one turn, and the tool calls between them."""

from __future__ import annotations

import os
import time

from .answer import ApiError, StreamedAnswer, Wire, refusal
from .faults import crash
from .host import Interrupted
from .lines import add_usage, zero_usage
from .permission import ask_permission, must_ask
from .request import SYSTEM_PROMPT, connect, messages
from .tools import TOOLS

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from typing import Any

    from .lines import Line
    from .turn import ScriptedTurn

RETRY_WAIT_S = 0.02
BUDGET_TOKENS = 15_000_000

REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)
STOPPED = (
    " Correction to the text above: this call was stopped while running, not refused before it ran. It may have run in "
    "part or in full, and its changes may have been written. No permission prompt was involved. Work it started "
    "elsewhere (a remote command, a background process) may still be running, so check before starting the same work "
    "again. The instruction to stop and wait still stands."
)


class Conversation:
    """One turn's exchange with the model. The turn has its text and usage; the session has its entries."""

    def __init__(self, turn: ScriptedTurn) -> None:
        self.turn, self.agent = turn, turn.agent
        self.host, self.session = turn.host, turn.session
        self.answer = StreamedAnswer()  # the newest answer

    def run(self) -> None:
        """Sends requests until the model calls no more tools."""
        while True:
            if self.agent.partial:
                self.host.say("system", subtype="status", status="requesting", **self.turn.marks)
            answer = self.ask()
            calls = [(block, uuid) for block, uuid in answer.done if block["type"] == "tool_use"]
            spent = sum(answer.usage.get(name) or 0 for name in ("input_tokens", "output_tokens"))
            for number, (call, uuid) in enumerate(calls):
                try:
                    self.use_tool(call, uuid)
                except Interrupted:
                    for other, its_uuid in calls[number + 1 :]:
                        self.report_result(other, its_uuid, REJECTED, True, "User rejected tool use")
                    raise Interrupted("tools") from None
            if self.turn.first:
                self.session.attach("prompt_snapshot", systemPrompt=[SYSTEM_PROMPT[:80]])
                self.turn.first = False
            if not calls:
                return
            left = f"<total_tokens>{BUDGET_TOKENS - spent} tokens left</total_tokens>"
            self.session.attach("total_tokens_reminder", left)

    def ask(self) -> StreamedAnswer:
        limit = os.environ.get("CLAUDE_CODE_MAX_RETRIES")
        tries = int(limit) if limit else 1
        for attempt in range(1, tries + 1):
            try:
                return self.request()
            except ApiError as error:
                if not error.retry:
                    raise
                fields: Line = {"attempt": attempt, "max_retries": int(limit or 10), "error_status": error.status}
                fields.update(retry_delay_ms=500 << attempt - 1, error=error.error if error.status else "unknown")
                self.host.say("system", subtype="api_retry", **fields)
                self.host.wait(timeout=RETRY_WAIT_S)
        return self.request()

    def request(self) -> StreamedAnswer:
        started = time.monotonic()
        self.answer, wire = StreamedAnswer(), Wire()
        connection, gateway = connect(self.session, self.host.model, self.agent.toolbox.names, self.messages())
        try:
            while not (wire.complete or self.answer.stopped):
                self.host.wait(connection.fileno())
                data = connection.recv(1 << 16)
                if not data:
                    raise ConnectionResetError
                wire.feed(data)
                if wire.status == 200:
                    self.answer.request_id = wire.headers.get("request-id")
                    self.host.gather(True)
                    for event in wire.events():
                        self.take_event(event)
                    self.host.gather(False)
        except (ConnectionError, ValueError):
            self.close_stream(cut=True)
            if wire.status is None:
                text = "API Error: Connection dropped (ECONNRESET). "
                text += "Check the gateway set in ANTHROPIC_BASE_URL, then try again."
            else:
                text = "API Error: Connection to the API was lost (ECONNRESET). This is usually temporary — try again."
            raise ApiError(text, "server_error", failure="connection_failed") from None
        except Interrupted:
            self.keep_partial()
            raise
        finally:
            self.host.gather(False)
            connection.close()
            self.session.account.api_ms += (time.monotonic() - started) * 1000
        if wire.status != 200:
            error = refusal(wire.status or 0, wire.body, self.host.model, gateway, wire.headers)
            error.request_id = wire.headers.get("request-id")
            error.retry = error.retry and wire.headers.get("x-should-retry") != "false"
            raise error
        self.keep_answer()
        return self.answer

    def messages(self) -> list[Line]:
        return messages(self.session, self.session.chain())

    def take_event(self, event: Line) -> None:
        if event["type"] == "ping":
            return
        if event["type"] == "error":
            self.close_stream(cut=True)
            raise ApiError(f"API Error: {event['error']['message']}", "server_error", None, event["error"]["type"])
        block = self.answer.take(event)
        if block is not None:
            message = {**self.answer.message, "content": [block], "context_management": None}
            self.answer.done.append((block, self.turn.say_assistant(message, self.answer.request_id)))
        self.say_event(event)
        is_text = event["type"] == "content_block_delta" and "text" in event["delta"]
        if is_text and (fault := self.agent.faults.take("crash_mid_text")):
            self.host.flush()
            crash(fault)

    def say_event(self, event: Line) -> None:
        if not self.agent.partial:
            return
        marks = self.turn.marks if event["type"] == "message_start" else {}
        self.host.say(
            "stream_event", event=event, parent_tool_use_id=None, api_message_id=self.answer.message.get("id"), **marks
        )

    def close_stream(self, cut: bool = False) -> None:
        """Sends the events that end a message which the model did not end."""
        answer = self.answer
        if answer.stopped or not answer.message:
            return
        for index in answer.open:
            self.say_event({"type": "content_block_stop", "index": index})
        if not cut:
            self.say_event({"type": "message_delta", "delta": {"stop_reason": None}, "usage": answer.usage})
        self.say_event({"type": "message_stop"})
        answer.stopped = True

    def keep_answer(self) -> None:
        answer, session = self.answer, self.session
        usage = zero_usage(**answer.usage)
        message = {**answer.message, "stop_reason": answer.stop_reason, "usage": usage}
        self.turn.stop_reason = answer.stop_reason
        self.turn.text = "".join(block["text"] for block, _ in answer.done if block["type"] == "text")
        session.account.charge(self.host.model, answer.usage)
        add_usage(self.turn.usage, answer.usage)
        names = [block["name"] for block, _ in answer.done if block["type"] == "tool_use"]
        if names:
            session.note({"type": "tools-used", "tools": names, "sessionId": session.id})
        for index, (block, uuid) in enumerate(answer.done):
            self.keep_block({**message, "content": [block]}, uuid, apiBlockIndex=index)

    def keep_partial(self) -> None:
        """Saves an interrupted answer: its finished blocks and the text so far, but not an unfinished tool call."""
        answer = self.answer
        for block, uuid in answer.done:
            self.keep_block({**answer.message, "content": [block]}, uuid)
        if text := answer.partial_text():
            message = {**answer.message, "content": [{"type": "text", "text": text}]}
            uuid = self.turn.say_assistant(message, answer.request_id, aborted=True)
            self.keep_block(message, uuid, isAbortedMidStream=True)

    def keep_block(self, message: Line, uuid: str, **fields: Any) -> None:
        made: Line = {"requestId": self.answer.request_id, "requestedModel": self.host.model, "madeBy": "model"}
        self.session.add("assistant", message=message, uuid=uuid, **made, **fields)

    # --- tools

    def use_tool(self, call: Line, uuid: str) -> None:
        name, tool_input = call["name"], call["input"]
        if name not in self.agent.toolbox.names:
            disabled = f". {name} is disabled for this session, in subagents as well as here." if name in TOOLS else ""
            missing = f"Error: No such tool available: {name}{disabled}"
            self.report_result(call, uuid, f"<tool_use_error>{missing}</tool_use_error>", True, missing)
            return
        meta: Line = {"id": call["id"], "permission_decision": {"decision": "accept", "source": "config"}}
        if must_ask(self.host, self.agent.options, name, tool_input):
            try:
                tool_input, problem = ask_permission(self.host, self.agent.options, call)
            except Interrupted:
                self.turn.denials.append({"tool_name": name, "tool_use_id": call["id"], "tool_input": tool_input})
                self.report_result(call, uuid, REJECTED, True, "User rejected tool use")
                raise
            if problem is not None:
                self.turn.denials.append({"tool_name": name, "tool_use_id": call["id"], "tool_input": tool_input})
                decision = {"decision": "reject", "source": "user_reject"}
                meta.update(non_execution_kind="permission-rule", permission_decision=decision)
                self.report_result(call, uuid, problem, True, f"Error: {problem}", meta)
                return
            meta["permission_decision"] = {"decision": "accept", "source": "user_temporary"}
        try:
            content, is_error, for_host = self.agent.toolbox.run(name, tool_input)
        except Interrupted:
            self.agent.toolbox.kill_child()
            self.report_result(call, uuid, REJECTED + STOPPED, True, "User rejected tool use")
            raise
        self.report_result(call, uuid, content, is_error, for_host, meta)

    def report_result(
        self, call: Line, uuid: str, content: str, is_error: bool, for_host: object, meta: Line | None = None
    ) -> None:
        result = {"type": "tool_result", "content": content, "is_error": is_error, "tool_use_id": call["id"]}
        self.turn.say_user([result], uuid, meta, for_host)
