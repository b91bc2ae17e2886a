"""The scripted agent's memory: its session file, the chain through it, what of that the model is shown, what it cost.

A session file is a list of JSON lines. Those with a `uuid` are entries, and each names its parent: the entries form a
tree, and the active chain is the way from the last entry in the file back to the root. Lines without a `uuid`
(queue-operation, last-prompt, mode, cost-state) are notes that no chain runs through.

Rules taken from the real CLI 2.1.325, each measured:

- A broken line is skipped. An entry whose parent is lost hangs on the entry before it in the file.
- A file without a single message is no session at all. A file that cannot be written is not noticed.
- A session is found by its id in every project's folder, and is continued in the file where it was found.
- An answer that was an API error stays in the chain but is never sent; the prompt that it answered is.
- A prompt that never got an answer (a kill, an interrupt) is closed on resume with "No response requested.", and a
  tool call without a result gets one that says so. Both are written to the file.
- The cost is written when the process ends: after a SIGKILL the totals go on from the last one written.

No dataclasses, typing or pathlib here: they would double the start-up time of a program that is spawned all day.
"""
# ruff: noqa: PTH103, PTH110, PTH111, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False  # spares the import of typing; the checkers know the name
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, TypeAlias

    Line: TypeAlias = dict[str, Any]

NO_RESPONSE = "No response requested."
TOOL_LOST = (
    "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. "
    "Check whether it took effect before relying on it or running it again.]"
)
CACHED = {"type": "ephemeral"}
# Dollars a million tokens: input, output. A cache write costs 1.25 of the input, a read 0.1.
PRICES = (("haiku", 1.0, 5.0), ("opus", 5.0, 25.0), ("", 3.0, 15.0))


class NoConversation(Exception):
    """There is nothing to resume. The text is what the CLI says about it."""


def new_id() -> str:
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_uuid(text: str) -> bool:
    parts = text.split("-")
    digits = all(part and not part.strip("0123456789abcdefABCDEF") for part in parts)
    return digits and [len(part) for part in parts] == [8, 4, 4, 4, 12]


def stamp() -> str:
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def dumps(line: object) -> bytes:
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


def projects_folder() -> str:
    config = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(config, "projects")


def session_path(cwd: str, session_id: str) -> str:
    slug = "".join(char if char.isascii() and char.isalnum() else "-" for char in cwd)
    return os.path.join(projects_folder(), slug, session_id + ".jsonl")


def find_session(cwd: str, session_id: str) -> str:
    """The file of a session: this directory's own first, then any other's."""
    here = session_path(cwd, session_id)
    if os.path.exists(here):
        return here
    try:
        folders = sorted(os.listdir(projects_folder()))
    except OSError:
        folders = []
    for folder in folders:
        path = os.path.join(projects_folder(), folder, session_id + ".jsonl")
        if os.path.exists(path):
            return path
    raise NoConversation(f"No conversation found with session ID: {session_id}")


def zero_usage(**more: object) -> Line:
    usage: Line = {
        "input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
        "output_tokens_details": {"thinking_tokens": 0},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
        "inference_geo": "",
        "iterations": [],
        "speed": "standard",
        "fallback_credit": None,
    }
    return {**usage, **more}


def add_usage(total: Line, usage: Line) -> None:
    for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"):
        total[name] += usage.get(name) or 0


def synthetic_message(text: str) -> Line:
    """What the CLI says in the assistant's name without having asked the model."""
    return {
        "id": new_id(),
        "type": "message",
        "role": "assistant",
        "model": "<synthetic>",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "usage": zero_usage(service_tier=None, inference_geo=None, iterations=None, speed=None),
        "context_management": None,
    }


class Account:
    """What the session has cost, by model, over all its processes."""

    def __init__(self) -> None:
        self.models: dict[str, Line] = {}
        self.since_last: dict[str, Line] = {}
        self.api_ms = 0.0
        self.started_ms = int(time.time() * 1000)

    def restore(self, cost_state: Line) -> None:
        self.models = {name: {**self.blank(name), **spent} for name, spent in cost_state["modelUsage"].items()}
        self.api_ms = cost_state["totalAPIDuration"]
        self.started_ms = cost_state["startTime"]

    def charge(self, model: str, usage: Line) -> None:
        tokens = {
            "inputTokens": usage.get("input_tokens") or 0,
            "outputTokens": usage.get("output_tokens") or 0,
            "cacheReadInputTokens": usage.get("cache_read_input_tokens") or 0,
            "cacheCreationInputTokens": usage.get("cache_creation_input_tokens") or 0,
        }
        price_in, price_out = next((cost_in, cost_out) for name, cost_in, cost_out in PRICES if name in model)
        shown = tokens["inputTokens"] + 1.25 * tokens["cacheCreationInputTokens"]
        shown += 0.1 * tokens["cacheReadInputTokens"]
        cost = (shown * price_in + tokens["outputTokens"] * price_out) / 1e6
        for book in (self.models, self.since_last):
            entry = book.setdefault(model, self.blank(model))
            for name, count in tokens.items():
                entry[name] += count
            entry["costUSD"] = round(entry["costUSD"] + cost, 10)

    @property
    def total_usd(self) -> float:
        spent: float = sum(entry["costUSD"] for entry in self.models.values())
        return round(spent, 10)

    def cost_state(self, session_id: str) -> Line:
        return {
            "type": "cost-state",
            "sessionId": session_id,
            "totalCostUSD": self.total_usd,
            "totalAPIDuration": int(self.api_ms),
            "totalDuration": int(time.time() * 1000) - self.started_ms,
            "startTime": self.started_ms,
            "modelUsage": self.models,
            "hasUnknownModelCost": False,
        }

    @staticmethod
    def blank(model: str) -> Line:
        names = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
        fixed: Line = {"webSearchRequests": 0, "costUSD": 0.0, "contextWindow": 200000, "maxOutputTokens": 32000}
        return {**dict.fromkeys(names, 0), **fixed, "canonicalModel": model, "provider": "firstParty"}


class Session:
    """One session: its entries in memory, and its file, which lags behind only where the file cannot be written."""

    def __init__(self, session_id: str, cwd: str, version: str, path: str) -> None:
        self.id, self.cwd, self.version, self.path = session_id, cwd, version, path
        self.entries: list[Line] = []
        self.by_uuid: dict[str, Line] = {}
        self.leaf: str | None = None
        self.account = Account()
        self.saving = True
        self.unwritten: list[Line] = []  # a fork's copied chain, until its first prompt comes
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
            line = json.loads(text)
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
        way: list[Line] = []
        at = self.leaf
        while at is not None and len(way) <= len(self.entries):
            entry = self.by_uuid[at]
            way.append(entry)
            at = entry.get("parentUuid")
        return way[::-1]

    def prompts(self) -> int:
        return sum("promptSource" in entry for entry in self.chain())

    # --- writing

    def rewind(self, uuid: str) -> None:
        if uuid not in self.by_uuid:
            raise NoConversation(f"No message found with message.uuid of: {uuid}")
        self.leaf = uuid
        self.resumed = False  # whoever rewinds chose the end: nothing is closed after it

    def fork(self, session_id: str, path: str) -> None:
        chain = [{**entry, "sessionId": session_id} for entry in self.chain()]
        self.id, self.path, self.entries, self.by_uuid = session_id, path, [], {}
        for entry in chain:
            self._remember(entry)
        self.unwritten = chain

    def note(self, line: Line) -> None:
        """A line that is not part of the chain."""
        self._append([line])

    def add(self, kind: str, parent: str | None = None, **fields: object) -> Line:
        """A new entry, by default at the end of the active chain."""
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
        """What is written when a prompt arrives, before the prompt itself."""
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
        """What is written when the process ends in an orderly way."""
        prompt = " ".join(last_prompt.split())
        self.note({"type": "last-prompt", "lastPrompt": prompt, "leafUuid": self.leaf, "sessionId": self.id})
        self.note({"type": "mode", "mode": "normal", "sessionId": self.id})
        self.note(self.account.cost_state(self.id))

    def _append(self, lines: list[Line]) -> None:
        if not self.saving or not lines:
            return
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError:
            return  # as the real one: the turn succeeds and is not saved
        try:
            size = os.lseek(descriptor, 0, os.SEEK_END)
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, b"\n" * torn + b"".join(dumps(line) for line in lines))
        finally:
            os.close(descriptor)

    # --- what the model is shown

    def messages(self) -> list[Line]:
        """The active chain as the API wants it: roles in turn, reminders before the text they came with."""
        merged: list[Line] = []
        for role, content in self._spoken():
            if merged and merged[-1]["role"] == role:
                merged[-1]["content"].extend(content)
            else:
                merged.append({"role": role, "content": content})
        if merged:
            merged[-1]["content"][-1] = {**merged[-1]["content"][-1], "cache_control": CACHED}
        return merged

    def _spoken(self) -> Iterator[tuple[str, list[Line]]]:
        """Runs of one role. An answer that was an API error ends a run of prompts but is not said itself."""
        run: list[Line] = []
        for entry in self.chain():
            if entry["type"] == "assistant":
                if run:
                    yield "user", self._user_content(run)
                run = []
                if not entry.get("isApiErrorMessage"):
                    yield "assistant", [dict(block) for block in blocks(entry)]
            elif entry["type"] in ("user", "attachment"):
                run.append(entry)
        if run:
            yield "user", self._user_content(run)

    def _user_content(self, run: list[Line]) -> list[Line]:
        reminders = [part["content"] for entry in run for part in entry.get("rendered", ())]
        results = self._all_results(run)
        texts = [[dict(block) for block in blocks(entry) if block["type"] != "tool_result"] for entry in run]
        texts = [part for part in texts if part]
        for part in texts[:-1]:
            if part[-1]["type"] == "text":
                part[-1]["text"] += "\n"
        said = [block for part in texts for block in part]
        if results:
            if reminders and isinstance(results[-1]["content"], str):
                results[-1]["content"] += "\n\n" + "\n".join(reminders)
            return results + said
        if reminders and said:
            reminders[-1] += "\n"
        return [{"type": "text", "text": text} for text in reminders] + said

    def _all_results(self, run: list[Line]) -> list[Line]:
        """The results in this run, and those of calls made side by side, whose entries lie off the chain."""
        found = [block for entry in run for block in blocks(entry, "tool_result")]
        if not found:
            return []
        siblings: dict[str, list[str]] = {}  # calls of one answer, by the answer's id
        results: dict[str, Line] = {}
        for entry in self.entries:
            results.update((block["tool_use_id"], block) for block in blocks(entry, "tool_result"))
            if calls := [block["id"] for block in blocks(entry, "tool_use")]:
                siblings.setdefault(entry["message"].get("id", entry["uuid"]), []).extend(calls)
        asked = {block["tool_use_id"] for block in found}
        for calls in siblings.values():
            if asked & set(calls):
                return [dict(results[call]) for call in calls if call in results]
        return [dict(block) for block in found]


def blocks(entry: Line, kind: str | None = None) -> list[Line]:
    """The content blocks of a message's entry; a plain text is one block."""
    content = entry["message"]["content"] if "message" in entry else []
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [block for block in content if kind is None or block["type"] == kind]
