"""Reads a state file of a pair, ours or the older tool's. A file that does not have the expected shape is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from clew.core.history import Role
from clew.core.pairs import prompts
from clew.core.pairs.pair import Order, PairPart, PairRound, Phase, PlannedMessage
from clew.core.record import Record
from clew.errors import UsageError
from clew.hosts.pairs.folder import CURRENT, ID
from clew.hosts.pairs.state import VERSION
from clew.hosts.validation import read_plain

MAX_FILE_BYTES = 200_000_000
MAX_ROUNDS = 1_000_000
FILE_HINT = "Name a file such as those in .clew/sessions."
EXPORTS = (b"PK\x03\x04", b"age-encryption.org/")  # how exported threads begin: plain, and encrypted


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


class _Planned(msgspec.Struct):
    round: int
    text: str


class StateFile(msgspec.Struct, rename="camel"):
    """The content of a state file, ours or the older tool's."""

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
    phase: Phase | None = None  # None: the older tool wrote the file
    finished: bool = False
    last_round: int | None = None
    asking: str = ""
    message: str = ""
    planned_messages: list[_Planned] = []
    rounds: list[_Round] = []
    sessions: dict[str, dict[str, str]] = {}

    def messages(self, part: PairPart) -> list[tuple[Role, str, bool]]:
        side = self.instructor if part is PairPart.INSTRUCTOR else self.worker
        roles = {role.value: role for role in Role}
        said = [
            (roles[each.role], _text(each.content), each.partial)
            for each in side.conversation_history
            if each.role in roles
        ]
        return [each for each in said if each[1].strip()]


def _order(response: _Response | None) -> Order | None:
    if response is None:
        return None
    return Order(**msgspec.structs.asdict(response)).replace(worker_model=response.worker_model or None)


def _text(content: Any) -> str:
    """The text of a message. The older tool stores a text, or the content blocks of a model's API."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else json.dumps(content, ensure_ascii=False)
    parts = []
    for block in content:
        text = block.get("text") if isinstance(block, dict) else block
        parts.append(text if isinstance(text, str) else json.dumps(block, ensure_ascii=False))
    return "\n".join(parts)


def read(path: Path) -> StateFile:
    """Raises UsageError, in one line, for any invalid file."""
    found = _decoded(path)
    named = found.get("current") if isinstance(found, dict) and path.name == CURRENT else None
    if isinstance(named, str) and re.fullmatch(r"session-[\w.-]+\.json", named):
        found = _decoded(path.with_name(named))
    if isinstance(found, dict) and isinstance(found.get("version"), str):
        _check_version(found["version"], path)
    try:
        state = msgspec.convert(found, StateFile)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _invalid(path, error) from error
    if not ID.match(state.session_id):
        raise UsageError(f"{path} is not the state of a pair: its sessionId is not valid.")
    return state


def _decoded(path: Path) -> Any:
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a directory.", hint="Name a file in it.")
        body = read_plain(path, MAX_FILE_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.", hint=FILE_HINT) from error
    if len(body) > MAX_FILE_BYTES:
        raise UsageError(f"{path} is too large for the state of a pair.")
    if body.startswith(EXPORTS):
        raise UsageError(
            f"{path} is an exported thread, not a state file of a pair.",
            hint=f"clew threads import {path} imports it; then clew pair --session NAME continues it.",
        )
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _invalid(path, error) from error


def _invalid(path: Path, error: Exception) -> UsageError:
    return UsageError(f"{path} is not the state of a pair: {' '.join(str(error).split())[:200]}.", hint=FILE_HINT)


def _check_version(version: str, path: Path) -> None:
    """Raises UsageError for a newer version. Checked before the rest, which may have another shape then."""
    numbers = tuple(int(each) for each in re.findall(r"[0-9]{1,40}", version[:200])[:3])
    if numbers > tuple(int(each) for each in VERSION.split(".")):
        raise UsageError(
            f"{path} has a newer version ({version[:40]}; this Clew knows {VERSION}).", hint="Update Clew."
        )


class PairPosition(Record):
    """How far the pair in a state file is. The fields are those of `Pair`."""

    planned_messages: tuple[PlannedMessage, ...]
    number: int
    phase: Phase
    is_finished: bool
    asking: str
    last_round: int


def clamped_rounds(number: int) -> int:
    """A valid number of rounds."""
    return min(max(1, number), MAX_ROUNDS)


def position_of(state: StateFile) -> tuple[PairPosition, tuple[PairRound, ...]]:
    """How far the pair is, and its rounds."""
    number = clamped_rounds(state.current_round)
    last = number + max(0, state.remaining_rounds) if state.last_round is None else state.last_round
    rounds = [
        PairRound(
            state.session_id,
            each.number,
            each.message,
            tuple(each.changed_files),
            _order(each.response),
            worker_model=each.worker_model,
            result=each.result,
        )
        for each in {each.number: each for each in state.rounds if 1 <= each.number <= number}.values()
    ]
    phase, asking, finished = state.phase, state.asking, state.finished
    # A file of the older tool has no phase, and in a damaged file there may be no prompt for the phase.
    if phase is None or (phase is not Phase.DONE and not asking.strip() and _last_prompt(state, phase) is None):
        phase, asking, finished = _derived_position(state)
    asked = _last_prompt(state, phase)
    if phase is not Phase.DONE and asked is not None and (asked == asking or not asking.strip()):
        asking = prompts.CONTINUE_PAIR
    if not any(round_.number == number for round_ in rounds):
        reports = state.messages(PairPart.WORKER) if phase is Phase.DONE and not finished else []
        result = reports[-1][1] if reports else None
        rounds.append(PairRound(state.session_id, number, order=_order(state.last_instructor_response), result=result))
    planned = tuple(PlannedMessage(each.round, each.text) for each in state.planned_messages)
    return PairPosition(planned, number, phase, finished, asking, clamped_rounds(last)), tuple(rounds)


def _last_prompt(state: StateFile, phase: Phase) -> str | None:
    """The last prompt to the part whose turn it is."""
    part = PairPart.WORKER if phase is Phase.WORKING else PairPart.INSTRUCTOR
    return next((text for role, text, _ in reversed(state.messages(part)) if role is Role.USER), None)


def _derived_position(state: StateFile) -> tuple[Phase, str, bool]:
    """The phase, the prompt, and whether the pair is finished, derived from the other fields of the file."""
    response, worker = state.last_instructor_response, state.messages(PairPart.WORKER)
    instruction = state.last_instruction or (response.instruction if response is not None else "")
    if response is not None and not response.should_continue:
        return Phase.DONE, "", True
    if not state.messages(PairPart.INSTRUCTOR):
        return Phase.INSTRUCTING, "Plan the task, and give the first instruction.", False
    if instruction.strip() and not any(role is Role.USER and text == instruction for role, text, _ in worker):
        return Phase.WORKING, instruction, False
    if worker and worker[-1][0] is Role.USER:
        return Phase.WORKING, "", False
    if state.messages(PairPart.INSTRUCTOR)[-1][0] is Role.USER:
        return Phase.INSTRUCTING, "", False
    return Phase.DONE, "", False  # a round is complete; a resume starts the next one
