"""The scripted agent's session: its file, and the active chain.

A session file consists of JSON lines. Those with a `uuid` are entries, and each names its parent: the entries form a
tree, and the active chain is the path from the last entry in the file back to the root. Lines without a `uuid`
(queue-operation, last-prompt, mode, cost-state) are notes outside the tree.

Rules taken from the real CLI 2.1.325, each measured:

- An invalid line is skipped. An entry whose parent is missing is attached to the entry before it in the file.
- A file without a message is not a session. A file that cannot be written causes no error.
- A prompt without an answer (after a kill or an interrupt) is closed on resume with "No response requested.", and a
  tool call without a result gets a result that says so. Both are written to the file.
- A `compact_boundary` has no parent and begins a new chain. The entries that it names as preserved follow the summary,
  although in the file their own parents are on the old chain, and what came next hangs on the summary. (A copy has the
  right parents.) All other entries before the boundary are out of reach, also for a rewind.
- The cost is written when the process ends: after a SIGKILL the totals continue from the last written one.
"""
# ruff: noqa: PTH103, PTH120, PTH123

from __future__ import annotations

import os

from .account import Account
from .lines import blocks, dumps, loads, new_id, stamp, synthetic_message, text_of

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
        self.checkpoint: str | None = None  # where the process that ended last left the session
        self.account = Account()
        self.saving = True
        self.unwritten: list[Line] = []  # a fork's copied chain, until its first prompt arrives
        self.resumed = False
        self.closed_with: str | None = None  # the answer that this process has added to an interrupted turn

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
        self.return_to_checkpoint()
        self.move_preserved()
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
        elif line.get("type") == "last-prompt":
            self.checkpoint = line.get("leafUuid")
        elif line.get("uuid") and line.get("type") in ("user", "assistant", "attachment", "system"):
            boundary = line.get("subtype") == "compact_boundary"
            if line.get("parentUuid") not in self.by_uuid and self.entries and not boundary:
                line["parentUuid"] = self.leaf
            self._remember(line)
            if boundary:
                self.checkpoint = None

    def return_to_checkpoint(self) -> None:
        """A process that ends says where the session ends. Entries of another process that came later and do not follow
        from there are not on the active chain."""
        if self.checkpoint not in self.by_uuid or self.checkpoint in [entry["uuid"] for entry in self.chain()]:
            return
        self.leaf = self.checkpoint
        for entry in self.entries:
            if entry.get("parentUuid") == self.leaf and entry["type"] == "attachment":
                self.leaf = entry["uuid"]

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

    def move_preserved(self) -> None:
        """Puts the entries that the last compaction preserved where the model is shown them: after the summary."""
        kept = [each["compactMetadata"].get("preservedMessages") for each in self.entries if "compactMetadata" in each]
        if not kept or kept[-1] is None or not all(uuid in self.by_uuid for uuid in kept[-1]["uuids"]):
            return
        anchor, uuids = kept[-1]["anchorUuid"], kept[-1]["uuids"]
        for entry in self.entries:
            if entry.get("parentUuid") == anchor and entry["uuid"] != uuids[0]:
                entry["parentUuid"] = uuids[-1]
        self.by_uuid[uuids[0]]["parentUuid"] = anchor

    def prompts(self) -> int:
        """How many prompts led here, also those that were summarised."""
        positions = [entry["turnPosition"] for entry in self.chain() if "turnPosition" in entry]
        count: int = positions[-1]["turnIndex"] if positions else 0
        return count

    def last_prompt(self) -> str:
        prompts = [entry for entry in self.entries if "promptSource" in entry]
        return text_of(prompts[-1]["message"]["content"]) if prompts else ""

    def tools_used(self) -> list[str]:
        """The names of all tools that were called in this session, each once."""
        return list(dict.fromkeys(call["name"] for entry in self.entries for call in blocks(entry, "tool_use")))

    # --- writing

    def rewind(self, uuid: str) -> None:
        if uuid not in [entry["uuid"] for entry in self.chain()]:
            raise NoConversation(f"No message found with message.uuid of: {uuid}")
        self.leaf = uuid
        self.resumed = False  # the caller chose where the session ends: nothing is appended to close it

    def fork(self, session_id: str, path: str) -> None:
        chain = [{**entry, "sessionId": session_id} for entry in self._with_parallel_results(self.chain())]
        leaf = self.leaf
        self.id, self.path, self.entries, self.by_uuid = session_id, path, [], {}
        for entry in chain:
            self._remember(entry)
        self.leaf, self.unwritten = leaf, chain

    def _with_parallel_results(self, chain: list[Line]) -> list[Line]:
        """The chain with the results that hang on its calls beside it, each before the entry that follows the calls."""
        places = {entry["uuid"]: place for place, entry in enumerate(chain)}
        beside: dict[int, list[Line]] = {}  # by the place of the entry before which they go
        for entry in self.entries:
            place = places.get(entry.get("parentUuid") or "")
            if entry["uuid"] not in places and place is not None and blocks(entry, "tool_result"):
                while place < len(chain) and blocks(chain[place], "tool_use"):
                    place += 1
                beside.setdefault(place, []).append(entry)
        return [each for place, entry in enumerate(chain) for each in (*beside.get(place, ()), entry)]

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
        a_command = text_of(blocks(messages[-1])).startswith(("<command-name>", "<local-command-stdout>"))
        if lost or (messages[-1]["type"] == "user" and not a_command):
            said = synthetic_message(NO_RESPONSE)
            self.closed_with = self.add("assistant", message=said, isApiErrorMessage=False, madeBy="other")["uuid"]

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
