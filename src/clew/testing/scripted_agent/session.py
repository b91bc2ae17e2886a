"""The scripted agent's session: its file, and the active chain.

A session file consists of JSON lines. Those with a `uuid` are entries, and each names its parent: the entries form a
tree, and the active chain is the path from the last entry in the file back to the root. Lines without a `uuid`
(queue-operation, last-prompt, mode, cost-state) are notes outside the tree.

Rules taken from the real CLI 2.1.325, each measured:

- An invalid line is skipped. An entry whose parent is missing is attached to the entry before it in the file.
- A file without a message is not a session. A file that cannot be written causes no error.
- A prompt without an answer (after a kill or an interrupt) is closed on resume with "No response requested.", and a
  tool call without a result gets a result that says so. Both are written to the file.
- The cost is written when the process ends: after a SIGKILL the totals continue from the last written one.
"""
# ruff: noqa: PTH103, PTH120, PTH123

from __future__ import annotations

import os

from .account import Account
from .lines import blocks, dumps, loads, new_id, stamp, synthetic_message

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .lines import Line

NO_RESPONSE = "No response requested."
TOOL_LOST = (
    "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. "
    "Check whether it took effect before relying on it or running it again.]"
)


class NoConversation(Exception):
    """There is nothing to resume. The message is the CLI's own."""


class ScriptedSession:
    """One session: its entries in memory, and its file. The file lacks entries after a failed write or a fault."""

    def __init__(self, session_id: str, cwd: str, version: str, path: str) -> None:
        self.id, self.cwd, self.version, self.path = session_id, cwd, version, path
        self.entries: list[Line] = []
        self.by_uuid: dict[str, Line] = {}
        self.leaf: str | None = None
        self.account = Account()
        self.saving = True
        self.unwritten: list[Line] = []  # a fork's copied chain, until its first prompt arrives
        self.resumed = False

    # --- reading

    def load(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                raw = file.read()
        except IsADirectoryError:
            raise NoConversation("Failed to resume session: EISDIR: illegal operation on a directory, read") from None
        except OSError:
            raw = b""
        for text in raw.split(b"\n"):
            self._load_line(text)
        if not any(entry["type"] in ("user", "assistant") for entry in self.entries):
            raise NoConversation(f"No conversation found with session ID: {self.id}")
        self.resumed = True

    def _load_line(self, text: bytes) -> None:
        try:
            line = loads(text)
        except ValueError:
            return
        if not isinstance(line, dict):
            return
        if line.get("type") == "cost-state":
            self.account.restore(line)
        elif line.get("uuid") and line.get("type") in ("user", "assistant", "attachment", "system"):
            if line.get("parentUuid") not in self.by_uuid and self.entries:
                line["parentUuid"] = self.leaf
            self._remember(line)

    def _remember(self, entry: Line) -> None:
        self.entries.append(entry)
        self.by_uuid[entry["uuid"]] = entry
        self.leaf = entry["uuid"]

    def chain(self) -> list[Line]:
        path: list[Line] = []
        uuid = self.leaf
        while uuid is not None and len(path) <= len(self.entries):
            entry = self.by_uuid[uuid]
            path.append(entry)
            uuid = entry.get("parentUuid")
        return path[::-1]

    def prompts(self) -> int:
        return sum("promptSource" in entry for entry in self.chain())

    # --- writing

    def rewind(self, uuid: str) -> None:
        if uuid not in self.by_uuid:
            raise NoConversation(f"No message found with message.uuid of: {uuid}")
        self.leaf = uuid
        self.resumed = False  # the caller chose where the session ends: nothing is appended to close it

    def fork(self, session_id: str, path: str) -> None:
        chain = [{**entry, "sessionId": session_id} for entry in self.chain()]
        self.id, self.path, self.entries, self.by_uuid = session_id, path, [], {}
        for entry in chain:
            self._remember(entry)
        self.unwritten = chain

    def note(self, line: Line) -> None:
        """Writes a line that is not part of the chain."""
        self._append([line])

    def add(self, kind: str, parent: str | None = None, **fields: object) -> Line:
        """Adds and writes a new entry, by default at the end of the active chain."""
        entry: Line = {"parentUuid": parent or self.leaf, "isSidechain": False, "type": kind}
        entry.update(fields)
        entry.setdefault("uuid", new_id())
        entry.setdefault("timestamp", stamp())
        entry.update(userType="external", entrypoint="sdk-cli", cwd=self.cwd, sessionId=self.id)
        entry.update(version=self.version, gitBranch="HEAD")
        self._remember(entry)
        self._append([entry])
        return entry

    def attach(self, kind: str, text: str | None = None, **fields: object) -> None:
        rendered: Line = {}
        if text is not None:
            content = f"<system-reminder>\n{text}\n</system-reminder>"
            rendered = {"rendered": [{"content": content}], "renderedRole": "system"}
        self.add("attachment", attachment={"type": kind, **fields}, **rendered)

    def begin(self, content: object) -> None:
        """Writes what precedes a prompt in the file."""
        enqueued: Line = {"type": "queue-operation", "operation": "enqueue", "timestamp": stamp()}
        enqueued["sessionId"] = self.id
        if isinstance(content, str):
            enqueued["content"] = content
        dequeued = {"type": "queue-operation", "operation": "dequeue", "timestamp": stamp(), "sessionId": self.id}
        self._append([enqueued, dequeued, *self.unwritten])
        self.unwritten = []
        if self.resumed:
            self._close_open_ends()
            self.resumed = False

    def _close_open_ends(self) -> None:
        messages = [entry for entry in self.chain() if entry["type"] in ("user", "assistant")]
        lost = list(self._calls_without_result(messages))
        for call, entry in lost:
            result = {"type": "tool_result", "content": TOOL_LOST, "is_error": True, "tool_use_id": call}
            self.add(
                "user",
                parent=entry["uuid"],
                message={"role": "user", "content": [result]},
                toolUseResult=TOOL_LOST,
                toolDenialKind="interrupted",
                sourceToolAssistantUUID=entry["uuid"],
            )
        if lost or messages[-1]["type"] == "user":
            self.add("assistant", message=synthetic_message(NO_RESPONSE), isApiErrorMessage=False, madeBy="other")

    def _calls_without_result(self, messages: Iterable[Line]) -> Iterator[tuple[str, Line]]:
        answered = {block["tool_use_id"] for entry in self.entries for block in blocks(entry, "tool_result")}
        for entry in messages:
            for block in blocks(entry, "tool_use"):
                if block["id"] not in answered:
                    yield block["id"], entry

    def end(self, last_prompt: str) -> None:
        """Writes the lines of a normal exit."""
        prompt = " ".join(last_prompt.split())
        self.note({"type": "last-prompt", "lastPrompt": prompt, "leafUuid": self.leaf, "sessionId": self.id})
        self.note({"type": "mode", "mode": "normal", "sessionId": self.id})
        self.note(self.account.cost_state(self.id))

    def _append(self, lines: list[Line]) -> None:
        if not self.saving or not lines:
            return
        try:
            descriptor = self._opened()
        except OSError:
            return  # like the real CLI: the turn succeeds and is not saved
        try:
            size = os.lseek(descriptor, 0, os.SEEK_END)
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, b"\n" * torn + b"".join(dumps(line) for line in lines))
        except OSError:
            pass  # the disk is full: the real CLI does not report it either
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        try:
            return os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            return os.open(self.path, flags, 0o600)
