"""The portable state of a pair: one JSON file that another machine or directory can go on from.

It lies under `.clew/sessions/` of the work directory, for the owner's eyes alone, and git does not see it. It is
written whole or not at all. The environment's secrets are blanked in it, by the rule of core/redaction.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clew.core import pair_prompts as words
from clew.core.history import Role, Turn, text_digest
from clew.core.pair import Order, Pair, Part, Phase, Round
from clew.core.record import Record
from clew.core.redaction import secret_values
from clew.errors import UsageError

VERSION = "1.0.0"
FOLDER = Path(".clew", "sessions")
CURRENT = "current.json"
FILE_MOST = 200_000_000
BLANKED = "[blanked]"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")

Stamp = Callable[[float | None], str | None]


class Whole(Record):
    """A pair with all that its file holds."""

    pair: Pair
    rounds: tuple[Round, ...]
    turns: Mapping[Part, tuple[Turn, ...]]
    sessions: Mapping[Part, Mapping[str, str]]  # by model


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What is blanked."""
    return tuple(secret_values(environ.items(), os.path.lexists))


def blank(text: str, secrets: Iterable[str]) -> str:
    """Without the environment's secrets, nor half characters, which not every reader takes."""
    for value in secrets:
        text = text.replace(value, BLANKED)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def alike(stored: str, told: str) -> bool:
    """The same text, though one of the two was blanked: in another environment, perhaps."""
    return stored == told or _fits(stored, told) or _fits(told, stored)


def _fits(text: str, blanked: str) -> bool:
    """It may be what was blanked."""
    first, *rest = blanked.split(BLANKED)
    if not rest or not text.startswith(first):
        return False
    place, last = len(first), rest.pop()
    for piece in rest:
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return text.endswith(last) and len(text) - len(last) >= place


def worded(whole: Whole, environ: Mapping[str, str], stamp: Stamp) -> str:
    """The file's text. Its first fields are those of the older tool, under their names."""
    pair, rounds = whole.pair, whole.rounds
    last = next((each for each in reversed(rounds) if each.order is not None), None)
    order = last.order if last is not None else None
    body = {
        "sessionId": pair.id,
        "createdAt": stamp(pair.created_at),
        "lastUpdatedAt": stamp(pair.updated_at),
        "version": VERSION,
        "config": {
            "instructorModel": pair.instructor_model or "",
            "workerModel": pair.worker_model or "",
            "maxRounds": pair.max_rounds,
            "useThinking": pair.thinking,
            "workDir": pair.cwd,
        },
        "currentRound": pair.number,
        "remainingRounds": pair.rounds_left,
        "instructor": {
            "conversationHistory": _messages(whole.turns[Part.INSTRUCTOR]),
            "systemPrompt": words.rubric(pair),
        },
        "worker": {"conversationHistory": _messages(whole.turns[Part.WORKER])},
        "lastInstruction": order.instruction if order is not None else "",
        "lastInstructorResponse": None if order is None else _response(order, pair),
        "name": pair.name,
        "task": pair.task,
        "agent": pair.agent,
        "models": list(pair.models),
        "phase": pair.phase.value,
        "finished": pair.is_finished,
        "lastRound": pair.last_round,
        "asking": pair.asking,
        "message": pair.message,
        "rounds": [_round(each, stamp) for each in rounds],
        "sessions": {part.value: dict(known) for part, known in whole.sessions.items()},
    }
    return json.dumps(_blanked(body, secrets_of(environ)), ensure_ascii=False, indent=2) + "\n"


def _blanked(value: Any, secrets: Sequence[str]) -> Any:
    """Before it is JSON: there a secret may be spelled otherwise."""
    if isinstance(value, str):
        return blank(value, secrets)
    if isinstance(value, dict):
        return {key: _blanked(each, secrets) for key, each in value.items()}
    return [_blanked(each, secrets) for each in value] if isinstance(value, list) else value


def _messages(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    return [
        {"role": turn.role.value, "content": turn.text} | ({"partial": True} if turn.partial else {}) for turn in turns
    ]


def _response(order: Order, pair: Pair) -> dict[str, Any]:
    return {
        "thinking": order.thinking,
        "instruction": order.instruction,
        "workerModel": order.worker_model or pair.worker_model or "",
        "shouldContinue": order.should_continue,
        "needsCorrection": order.needs_correction,
    }


def _round(round_: Round, stamp: Stamp) -> dict[str, Any]:
    order = round_.order
    return {
        "number": round_.number,
        "message": round_.message,
        "changedFiles": list(round_.changed_files),
        "response": None
        if order is None
        else {
            "thinking": order.thinking,
            "instruction": order.instruction,
            "workerModel": order.worker_model,
            "shouldContinue": order.should_continue,
            "needsCorrection": order.needs_correction,
        },
        "workerModel": round_.worker_model,
        "result": round_.result,
        "startedAt": stamp(round_.started_at),
        "endedAt": stamp(round_.ended_at),
    }


def pair_id(at: float, mark: str) -> str:
    """For a pair that begins then: a person reads it."""
    return f"{time.strftime('%Y-%m-%d-%H-%M-%S', time.localtime(at))}-{mark[:4]}"


def path_of(cwd: str, pair_id: str) -> Path:
    """Never outside that folder: an id that leads elsewhere is not believed."""
    name = pair_id if ID.match(pair_id) else text_digest(pair_id)
    return Path(cwd, FOLDER, f"session-{name}.json")


def write(cwd: str, pair_id: str, text: str) -> Path:
    """Whole or not at all. Raises OSError."""
    path = path_of(cwd, pair_id)
    folder = path.parent
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, exist_ok=True)
        if each.is_symlink() or not each.is_dir():  # a repository may have put it there, to have us write elsewhere
            raise OSError(0, "it leads elsewhere", str(each))
        if stat.S_IMODE(each.stat().st_mode) != 0o700:
            each.chmod(0o700)
    ignore = folder / ".gitignore"
    if ignore.is_symlink() or not ignore.exists():  # a link may come with a repository, and git follows none
        _replace(ignore, "*\n")
    _replace(path, text)
    return path


def _replace(path: Path, text: str) -> None:
    """On the disk before it takes the old one's place."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _settle(path.parent)


def _settle(folder: Path) -> None:
    """So that the new name too outlives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def point_at(path: Path) -> Path:
    """`current.json`: a link; where there are none, a small file that names it. Raises OSError."""
    current = path.with_name(CURRENT)
    beside = path.with_name(f".{CURRENT}.{os.getpid()}.tmp")
    try:
        beside.unlink(missing_ok=True)
        beside.symlink_to(path.name)
        beside.replace(current)
    except OSError:
        _replace(current, json.dumps({"current": path.name}) + "\n")
    return current


def remove(cwd: str, pair_id: str) -> bool:
    """The file of a pair that is gone. False: there was none."""
    path = path_of(cwd, pair_id)
    try:
        if path.parent.is_symlink() or path.parent.parent.is_symlink():
            return False
        path.unlink()
        current = path.parent / CURRENT
        if current.is_symlink() and str(current.readlink()) == path.name:
            current.unlink()
    except OSError:
        return False
    return True


class _Versioned(msgspec.Struct):
    version: str = ""


class _Message(msgspec.Struct):
    role: str
    content: Any = ""
    partial: bool = False


class _Side(msgspec.Struct, rename="camel"):
    conversation_history: list[_Message] = []


class _Config(msgspec.Struct, rename="camel"):
    instructor_model: str | None = None
    worker_model: str | None = None
    max_rounds: int = 10
    use_thinking: bool = False
    work_dir: str = ""


class _Response(msgspec.Struct, rename="camel"):
    thinking: str = ""
    instruction: str = ""
    worker_model: str | None = None
    should_continue: bool = True
    needs_correction: bool = False


class _Round(msgspec.Struct, rename="camel"):
    number: int
    message: str = ""
    changed_files: list[str] = []
    response: _Response | None = None
    worker_model: str | None = None
    result: str | None = None


class State(msgspec.Struct, rename="camel"):
    """A state file, ours or the older tool's."""

    session_id: str
    version: str
    config: _Config
    instructor: _Side
    worker: _Side
    current_round: int = 0
    remaining_rounds: int = 0
    last_instruction: str = ""
    last_instructor_response: _Response | None = None
    created_at: str = ""
    last_updated_at: str = ""
    name: str = ""
    task: str = ""
    agent: str | None = None
    models: list[str] = []
    phase: Phase | None = None  # None: the older tool's
    finished: bool = False
    last_round: int | None = None
    asking: str = ""
    message: str = ""
    rounds: list[_Round] = []
    sessions: dict[str, dict[str, str]] = {}

    def messages(self, part: Part) -> list[tuple[Role, str, bool]]:
        side = self.instructor if part is Part.INSTRUCTOR else self.worker
        roles = {role.value: role for role in Role}
        said = [
            (roles[each.role], _text(each.content), each.partial)
            for each in side.conversation_history
            if each.role in roles
        ]
        return [each for each in said if each[1].strip()]


def order_of(response: _Response) -> Order:
    return Order(
        response.thinking,
        response.instruction,
        response.worker_model or None,
        response.should_continue,
        response.needs_correction,
    )


def _text(content: Any) -> str:
    """Of a message as the older tool keeps it: a text, or the blocks of a model's API."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else json.dumps(content, ensure_ascii=False)
    parts = []
    for block in content:
        text = block.get("text") if isinstance(block, dict) else block
        parts.append(text if isinstance(text, str) else json.dumps(block, ensure_ascii=False))
    return "\n".join(parts)


def read(path: Path) -> State:
    """Raises UsageError, in one line, whatever the file holds."""
    body = _body(path)
    named = _named(body)
    if named is not None and path.name == CURRENT:
        body = _body(path.with_name(named))
    _check_version(body, path)
    try:
        state = msgspec.json.decode(body, type=State)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(
            f"{path} is no state of a pair: {' '.join(str(error).split())[:200]}.",
            hint="Name a file as it lies in .clew/sessions.",
        ) from error
    if not ID.match(state.session_id):
        raise UsageError(f"{path} is no state of a pair: its sessionId cannot be one.")
    return state


def _body(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a directory.", hint="Name a file in it.")
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # waits for no pipe
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is no file.", hint="Name one as it lies in .clew/sessions.")
            body = file.read(FILE_MOST + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from error
    if len(body) > FILE_MOST:
        raise UsageError(f"{path} is too large for the state of a pair.")
    return body


def _named(body: bytes) -> str | None:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    named = found.get("current") if isinstance(found, dict) else None
    return named if isinstance(named, str) and re.fullmatch(r"session-[\w.-]+\.json", named) else None


def _check_version(body: bytes, path: Path) -> None:
    """Before the rest is looked at: of a newer file nothing need fit."""
    try:
        version = msgspec.json.decode(body, type=_Versioned).version
    except (msgspec.DecodeError, RecursionError):
        return  # what is wrong with it is said by whoever reads the rest
    numbers = tuple(int(each) for each in re.findall(r"[0-9]{1,40}", version[:200])[:3])
    if numbers > tuple(int(each) for each in VERSION.split(".")):
        raise UsageError(
            f"{path} is of a newer version ({version[:40]}; this Clew knows {VERSION}).", hint="Update Clew."
        )
