"""The command `/compact`: the model summarises the conversation, and the session continues from the summary.

The file is only appended to. A `compact_boundary` without a parent begins a new chain; its `logicalParentUuid` names
the end of the old one. The summary follows, then the command itself and its output, as messages of the user. The
model's last answer is not summarised but kept: `preservedMessages` says which entries of the old chain the model is
shown after the summary (`ScriptedSession.move_preserved`). If there is only one answer, it is summarised too.

A command is not a turn: the result has `num_turns` 0, and also a failed compaction is a success.
"""

from __future__ import annotations

import time

from .answer import ApiError
from .conversation import Conversation
from .host import Interrupted
from .lines import new_id, synthetic_message, text_of
from .request import messages

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from typing import Any

    from .lines import Line
    from .turn import ScriptedTurn

PROMPT = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n"
    "Your task is to create a detailed summary of the conversation so far: an <analysis> block followed by a <summary> "
    "block."
)
CAVEAT = (
    "<local-command-caveat>The command below was run directly in Claude Code, not sent to you as a request, and its "
    "output goes straight to the user. It's recorded here as context for later messages.</local-command-caveat>"
)
CONTINUED = (
    "This session is being continued from a previous conversation that ran out of context. The summary below covers "
    "the earlier portion of the conversation.\n\n<system-reminder>\n<tools-used-before-summary>{tools}"
    "</tools-used-before-summary>\n</system-reminder>\n{summary}\n\nIf you need specific details from before "
    "compaction (like exact code snippets, error messages, or content you generated), read the full transcript at: "
    "{path}\nContinue the conversation from where it left off without asking the user any further questions. Resume "
    'directly — do not acknowledge the summary, do not recap what was happening, do not preface with "I\'ll continue" '
    "or similar. Pick up the last task as if the break never happened."
)
KEPT = (
    "\n\nThe messages after this summary are the most recent messages from before compaction, kept verbatim. The "
    "summary was written without seeing them, so something it says has not happened yet may already have happened in "
    "them."
)

OUTPUT, ERROR = "<local-command-stdout>{}</local-command-stdout>", "<local-command-stderr>{}</local-command-stderr>"


def is_compaction(content: object) -> bool:
    return text_of(content).strip().split(None, 1)[:1] == ["/compact"]


class Compaction:
    """One `/compact`, from the request for a summary to the last line on the stream."""

    def __init__(self, turn: ScriptedTurn) -> None:
        self.turn, self.host, self.session = turn, turn.host, turn.session
        self.arguments = text_of(turn.content).strip().partition("/compact")[2].strip()
        self.started = time.monotonic()

    def run(self) -> Line:
        """Compacts the session; returns the part of the result line that says how it ended."""
        chain = self.session.chain()
        if not any(entry["type"] in ("user", "assistant") for entry in chain):
            return self.fail("Error: No messages to compact", "", ERROR)
        self.host.say("system", subtype="status", status="compacting")
        kept = last_answer(chain)
        earlier = chain[: len(chain) - len(kept)]
        if not is_enough(chain, earlier):
            return self.give_up("Not enough messages to compact.", OUTPUT)
        try:
            text = Summary(self.turn, earlier, self.arguments).run_alone()
        except ApiError as error:
            return self.give_up(f"Error during compaction: {error.text}", ERROR)
        self.host.say("system", subtype="status", status=None, compact_result="success")
        self.keep(chain, kept, text)
        return {"subtype": "success", "is_error": False, "result": "", "local_command": "compact"}

    def give_up(self, problem: str, form: str) -> Line:
        self.host.say("system", subtype="status", status=None, compact_result="failed", compact_error=problem)
        return self.fail(problem, problem, form)

    def keep(self, chain: list[Line], kept: list[Line], summary: str) -> None:
        """Saves the boundary, the summary and the command, and sends them."""
        session, prompts = self.session, self.session.prompts()
        anchor, tools = new_id(), ", ".join(session.tools_used())
        text = CONTINUED.format(tools=tools, summary=summary, path=session.path) + KEPT * bool(kept)
        metadata = self.metadata(chain, kept, anchor, text)
        boundary = session.add(
            "system",
            parentUuid=None,
            logicalParentUuid=session.leaf,
            subtype="compact_boundary",
            content="Conversation compacted",
            isMeta=False,
            level="info",
            compactMetadata=metadata,
        )
        position = {"promptIndex": 0, "turnIndex": prompts}
        shown: Line = {"isVisibleInTranscriptOnly": True, "isCompactSummary": True, "turnPosition": position}
        said = self.keep_text(text, uuid=anchor, **shown)
        # An answer that this process has added itself, to close an interrupted turn, is followed by the command.
        self.keep_command(parent=kept[-1]["uuid"] if kept and kept[-1]["uuid"] == session.closed_with else None)
        output = self.keep_text(OUTPUT.format("Compacted "))
        session.move_preserved()
        self.turn.keep_place()
        self.turn.say_init()
        for_host = {_snake(name): _snaked(value) for name, value in metadata.items()}
        line: Line = {"type": "system", "subtype": "compact_boundary", "session_id": session.id}
        line.update(uuid=boundary["uuid"], compact_metadata=for_host)
        self.host.emit({**line, "logical_parent_uuid": boundary["logicalParentUuid"]})
        self.say_text(said, isReplay=False, isSynthetic=True)
        for entry in kept:
            if entry.get("subtype") == "local_command":  # the output of an earlier command is sent again
                self.say_output(entry)
        self.say_text(output, isReplay=True)

    def metadata(self, chain: list[Line], kept: list[Line], anchor: str, text: str) -> Line:
        answers = [entry["message"].get("usage") or {} for entry in chain if entry["type"] == "assistant"]
        before = sum(value for value in answers[-1].values() if isinstance(value, int)) if answers else 0
        earlier = chain[0].get("compactMetadata", {}).get("cumulativeDroppedTokens", 0)
        made: Line = {"trigger": "manual", "preTokens": before}
        made["durationMs"] = int((time.monotonic() - self.started) * 1000)
        if kept:
            uuids = [entry["uuid"] for entry in kept]
            made["preservedSegment"] = {"headUuid": uuids[0], "anchorUuid": anchor, "tailUuid": uuids[-1]}
            made["preservedMessages"] = {"anchorUuid": anchor, "uuids": uuids, "allUuids": uuids}
        after = len(text) // 4
        return {**made, "postTokens": after, "cumulativeDroppedTokens": earlier + max(0, before - after)}

    def keep_text(self, text: str, **fields: Any) -> Line:
        said = {"role": "user", "content": text}
        return self.session.add("user", message=said, promptId=self.turn.prompt_id, **fields)

    def keep_command(self, parent: str | None = None) -> None:
        self.keep_text(CAVEAT, isMeta=True, parent=parent)
        parts = ("name>/compact</command-name", "message>compact</command-message")
        shown = [*(f"<command-{part}>" for part in parts), f"<command-args>{self.arguments}</command-args>"]
        self.keep_text(("\n" + " " * 12).join(shown), uuid=self.turn.uuid or new_id())

    def say_text(self, entry: Line, **fields: object) -> None:
        line: Line = {"type": "user", "message": entry["message"], "session_id": self.session.id}
        self.host.emit(
            {**line, "parent_tool_use_id": None, "uuid": entry["uuid"], "timestamp": entry["timestamp"], **fields}
        )

    def fail(self, problem: str, result: str, form: str) -> Line:
        self.keep_command()
        failed: Line = {"commandOutcome": {"kind": "failed"}} if form is ERROR else {}
        entry = self.session.add(
            "system",
            subtype="local_command",
            content=form.format(problem),
            level="info",
            isMeta=False,
            commandRun={"command": "compact", "args": self.arguments},
            **failed,
        )
        self.turn.say_init()
        self.say_output(entry)
        return {"subtype": "success", "is_error": False, "result": result, "local_command": "compact"}

    def say_output(self, entry: Line) -> None:
        """Sends the output of a command that did not compact. On the stream it is an answer."""
        text = entry["content"].partition(">")[2].rpartition("<")[0]
        line: Line = {"type": "assistant", "message": synthetic_message(text), "parent_tool_use_id": None}
        line.update(local_command_source=entry["content"], session_id=self.session.id)
        line.update(uuid=entry["uuid"], timestamp=entry["timestamp"], local_command_run=entry["commandRun"])
        if "commandOutcome" in entry:
            line["local_command_outcome"] = entry["commandOutcome"]
        self.host.emit(line)


class Summary(Conversation):
    """The request for the summary. Nothing of its answer is streamed to the host, and no part of it is saved."""

    def __init__(self, turn: ScriptedTurn, chain: list[Line], arguments: str) -> None:
        super().__init__(turn)
        more = f"\n\nAdditional Instructions:\n{arguments}" if arguments else ""
        asked = {"type": "user", "message": {"role": "user", "content": PROMPT + more}}
        self.shown = messages(self.session, [*chain, asked])
        self.texts: list[str] = []

    def run_alone(self) -> str:
        try:
            self.ask()
        except Interrupted:
            raise ApiError("Compaction canceled.", "unknown") from None
        text = "".join(self.texts)
        if "<summary>" in text:
            text = "Summary:\n" + text.partition("<summary>")[2].partition("</summary>")[0].strip()
        return text.strip()

    def messages(self) -> list[Line]:
        return self.shown

    def take_event(self, event: Line) -> None:
        if event["type"] == "error":
            raise ApiError(f"API Error: {event['error']['message']}", "server_error", None, event["error"]["type"])
        block = self.answer.take(event) if event["type"] != "ping" else None
        if block is not None and block["type"] == "text":
            self.texts.append(block["text"])

    def say_event(self, event: Line) -> None:
        pass

    def keep_answer(self) -> None:
        self.session.account.charge(self.host.model, self.answer.usage)

    def keep_partial(self) -> None:
        pass


def is_enough(chain: list[Line], earlier: list[Line]) -> bool:
    """Whether there is something to summarise: an answer, and two messages in the part that would be summarised."""
    messages = [entry for entry in earlier if entry["type"] in ("user", "assistant") and not entry.get("isMeta")]
    said = [entry for entry in messages if not entry.get("isApiErrorMessage")]
    return len(said) > 1 and any(entry["type"] == "assistant" for entry in chain)


def last_answer(chain: list[Line]) -> list[Line]:
    """The chain from the model's last answer on, when there is an earlier answer; otherwise nothing."""
    answers = [place for place, entry in enumerate(chain) if entry["type"] == "assistant"]
    if not answers:
        return []
    last = chain[answers[-1]]["message"].get("id")
    same = [place for place in answers if chain[place]["message"].get("id") == last]
    return chain[same[0] :] if answers[0] < same[0] else []


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def _snaked(value: object) -> object:
    return {_snake(name): each for name, each in value.items()} if isinstance(value, dict) else value
