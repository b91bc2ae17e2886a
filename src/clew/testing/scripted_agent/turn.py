"""One prompt, from its arrival to its result: what is reported to the host, and what is saved in the session."""

from __future__ import annotations

import os
import sys
import time

from .answer import ApiError
from .compaction import Compaction, is_compaction
from .conversation import BUDGET_TOKENS, Conversation
from .faults import crash, hang
from .host import Interrupted
from .lines import new_id, stamp, synthetic_message, zero_usage
from .request import SYSTEM_PROMPT

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from typing import Any

    from .agent import ScriptedAgent
    from .lines import Line


class ScriptedTurn:
    """The state of one turn."""

    def __init__(self, agent: ScriptedAgent, line: Line) -> None:
        self.agent, self.host, self.session, self.faults = agent, agent.host, agent.session, agent.faults
        self.content = line["message"]["content"]
        self.uuid = line.get("uuid")
        self.marks: Line = {"user_message_uuids": [self.uuid]} if self.uuid else {}
        self.started, self.usage, self.num_turns = time.monotonic(), zero_usage(), 1
        self.denials: list[Line] = []
        self.text = ""
        self.stop_reason: str | None = None
        self.first = all(entry.get("attachment", {}).get("type") != "session_context" for entry in self.session.chain())
        self.prompt_id = new_id()

    def run(self) -> bool:
        """Executes the turn; returns whether it failed."""
        content = self.content
        self.session.saving = True
        self.faults.turn = self.session.prompts() + 1
        if self.uuid:
            self.host.say("command_lifecycle", command_uuid=self.uuid, state="started")
        if fault := self.faults.take("hang_before_init", "crash_before_init"):
            hang(fault) if fault["do"].startswith("hang") else crash(fault)
        crashing = self.faults.take("crash_after_init")
        self.session.saving = not self.faults.take("unsaved") and (crashing or {}).get("saved", True)
        self.session.begin(content)
        if is_compaction(content):
            self.num_turns = 0
            self.finish(Compaction(self).run())
            return False
        blank = isinstance(content, str) and content != "" and not content.strip()
        if not blank:
            self.keep_prompt(content)
        self.say_init()
        if crashing:
            crash(crashing)
        self.misbehave()
        outcome = self.skip_blank() if blank else self.outcome()
        self.finish(outcome)
        return bool(outcome["is_error"])

    def keep_prompt(self, content: object) -> None:
        session, index = self.session, self.session.prompts() + 1
        session.add(
            "user",
            message={"role": "user", "content": content},
            uuid=self.uuid or new_id(),
            promptId=self.prompt_id,
            permissionMode=self.host.mode,
            promptSource="sdk",
            turnOrigin="sdk",
            turnPosition={"promptIndex": 0, "turnIndex": index},
        )
        places = [entry["attachment"] for entry in session.chain() if entry["type"] == "attachment"]
        before = [place["snapshot"]["workingDirectory"] for place in places if place["type"] == "environment"]
        snapshot = {"workingDirectory": self.host.cwd, "platform": sys.platform}
        if not before:
            self.keep_place()
        elif before[-1] != self.host.cwd:
            moved = f"# Environment update\n - Primary working directory: {self.host.cwd} (was {before[-1]})"
            session.attach("environment", moved, snapshot=snapshot)
        session.attach("total_tokens_reminder", f"<total_tokens>{BUDGET_TOKENS} tokens left</total_tokens>")
        if self.first:
            today = time.strftime("%Y-%m-%d")
            session.attach("session_context", context={})
            session.attach("date", f"Today's date is {today}.", date=today)
            session.attach("prompt_snapshot", systemPrompt=[SYSTEM_PROMPT[:80]])

    def keep_place(self) -> None:
        """Saves what the model is told about the machine and itself, once in each chain."""
        snapshot = {"workingDirectory": self.host.cwd, "platform": sys.platform}
        where = f"# Environment\n - Primary working directory: {self.host.cwd}\n - Platform: {sys.platform}"
        self.session.attach("environment", where, snapshot=snapshot)
        model = self.host.model
        self.session.attach("model", f"You are powered by the model {model}.", identity={"modelId": model})

    def say_init(self) -> None:
        line: Line = {"type": "system", "subtype": "init", "cwd": self.host.cwd, "session_id": self.session.id}
        if self.faults.take("lie_session_id"):
            line["session_id"] = new_id()
        line.update(tools=self.agent.toolbox.names, mcp_servers=[], model=self.host.model)
        line.update(permissionMode=self.host.mode, slash_commands=[])
        line.update(apiKeySource="ANTHROPIC_API_KEY", claude_code_version=self.agent.version, output_style="default")
        line.update(agents=[], skills=[], plugins=[], capabilities=["interrupt_receipt_v1", "msg_lifecycle_v1"])
        self.host.emit({**line, "uuid": new_id(), "original_cwd": self.host.cwd, **self.marks})

    def misbehave(self) -> None:
        """The faults between `init` and the first request to the model."""
        if fault := self.faults.take("hang_after_init"):
            hang(fault)
        if fault := self.faults.take("flood"):
            if fault.get("n_bytes"):
                self.host.say("system", subtype="informational", content="x" * fault["n_bytes"])
            sys.stderr.write(("noise " * 16 + "\n") * fault.get("stderr_lines", 0))
            sys.stderr.flush()
        if self.faults.take("garbage_line"):
            os.write(1, b"this is not json\n\n\xff\xfe\x00\n[]\nnull\n")
            os.write(1, b'{"type":"system","subtype":"odd","value":NaN}\n')
            os.write(1, b'{"type":"system","subtype":"odd","value":"\\ud800"}\n{"type":"from_the_future"}\n')

    def skip_blank(self) -> Line:
        text = "Blank prompt — the message was only whitespace, so nothing was sent to the model."
        self.host.say("system", subtype="informational", content=text, level="warning")
        self.num_turns = 0
        return {"subtype": "success", "is_error": False, "result": ""}

    def outcome(self) -> Line:
        """Runs the conversation with the model; returns the part of the result line that says how it ended."""
        conversation = Conversation(self)
        try:
            if fault := self.faults.take("error_result"):
                error = ApiError(fault["text"], "unknown", fault.get("status"), fault.get("error_type"))
                error.reason = fault.get("terminal_reason", error.reason)
                raise error
            conversation.run()
        except ApiError as error:
            return self.report_api_error(error)
        except Interrupted as stop:
            for_tools = " for tool use" if stop.where == "tools" else ""
            self.say_user([{"type": "text", "text": f"[Request interrupted by user{for_tools}]"}])
            conversation.close_stream()
            shown = "null" if self.stop_reason is None else self.stop_reason
            why = f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={shown}"
            ended: Line = {"subtype": "error_during_execution", "is_error": True, "errors": [why]}
            return {**ended, "terminal_reason": f"aborted_{stop.where}"}
        done: Line = {"subtype": "success", "is_error": False, "api_error_status": None, "result": self.text}
        return {**done, "terminal_reason": "completed"}

    def report_api_error(self, error: ApiError) -> Line:
        message = synthetic_message(error.text)
        if error.limit is not None:
            self.host.say("rate_limit_event", rate_limit_info=error.limit)
        line: Line = {"is_api_error_message": True, "error": error.error}
        entry: Line = {"isApiErrorMessage": True, "error": error.error}
        result: Line = {"api_error_status": error.status}
        if error.status is not None:
            line.update(api_error_status=error.status, api_error_type=error.kind)
            entry.update(apiErrorStatus=error.status, apiErrorType=error.kind)
            result.update(api_error_type=error.kind)
        if error.failure:
            for shape, name in ((line, "api_error"), (entry, "apiError"), (result, "api_error")):
                shape[name] = error.failure
        uuid = self.say_assistant(message, error.request_id, **line)
        self.session.add("assistant", message=message, uuid=uuid, madeBy="model", **entry)
        self.stop_reason = "stop_sequence"
        result.update(subtype="success", is_error=True, result=error.text, terminal_reason=error.reason)
        return result

    def finish(self, outcome: Line) -> None:
        session, account = self.session, self.session.account
        if self.faults.take("no_result"):
            session.end(self.agent.last_prompt)
            os._exit(0)
        line: Line = {"type": "result", "session_id": session.id, "stop_reason": self.stop_reason, "usage": self.usage}
        line.update(duration_ms=int((time.monotonic() - self.started) * 1000), duration_api_ms=int(account.api_ms))
        line.update(num_turns=self.num_turns, total_cost_usd=account.total_usd, modelUsage=account.models)
        line.update(
            permission_denials=self.denials, uuid=new_id(), result_index=self.agent.results, queued_turn_count=0
        )
        if fault := self.faults.take("flood_result"):
            line["padding"] = "x" * fault["n_bytes"]
        if self.uuid:
            line.update(user_message_uuid=self.uuid, **self.marks)
        self.host.emit({**line, **outcome, "model_usage_since_last_result": account.since_last})
        if self.uuid:
            state = "cancelled" if outcome["is_error"] else "completed"
            self.host.say("command_lifecycle", command_uuid=self.uuid, state=state)
        account.since_last = {}

    def say_assistant(self, message: Line, request_id: str | None, **fields: object) -> str:
        line: Line = {"type": "assistant", "message": message, "parent_tool_use_id": None}
        line.update(session_id=self.session.id, uuid=new_id(), timestamp=stamp(), **fields)
        if request_id:
            line["request_id"] = request_id
        if self.uuid:
            line.update(user_message_uuid=self.uuid, **self.marks)
        self.host.emit(line)
        uuid: str = line["uuid"]
        return uuid

    def say_user(
        self, content: list[Line], parent: str | None = None, meta: Line | None = None, for_host: Any = None
    ) -> None:
        """Sends and saves a user message that no user wrote: a tool's result, or the note about an interrupt."""
        self.num_turns += 1
        message = {"role": "user", "content": content}
        line: Line = {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": self.session.id}
        entry: Line = {"message": message, "uuid": new_id(), "timestamp": stamp(), "promptId": self.prompt_id}
        line.update(uuid=entry["uuid"], timestamp=entry["timestamp"])
        if for_host is not None:
            line["tool_use_result"] = entry["toolUseResult"] = for_host
            entry["sourceToolAssistantUUID"] = parent
        if meta:
            line["tool_result_meta"] = [meta]
        self.host.emit(line)
        self.session.add("user", parent=parent, **entry)
