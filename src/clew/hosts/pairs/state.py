"""The portable state of a pair, worded: one JSON file that another machine or directory can go on from.

Secrets are blanked in it, those of the environment and what looks like one, by the rules of core/redaction.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from clew.core.history import Turn
from clew.core.pairs import prompts as words
from clew.core.pairs.pair import Order, Pair, PairPart, PairRound
from clew.core.record import Record
from clew.core.secrets import redaction

VERSION = "1.0.0"
BLANKED = "[blanked]"

Stamp = Callable[[float | None], str | None]


class SavedPair(Record):
    """A pair with all that its file holds."""

    pair: Pair
    rounds: tuple[PairRound, ...]
    turns: Mapping[PairPart, tuple[Turn, ...]]
    sessions: Mapping[PairPart, Mapping[str, str]]  # by model


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What is blanked besides what looks like a secret."""
    return tuple(redaction.secret_values(environ.items(), os.path.lexists))


def blank(text: str, secrets: Iterable[str]) -> str:
    """Without secrets, nor half characters, which not every reader takes."""
    text, _ = redaction.blank(text, redaction.find_secrets(text, secrets), BLANKED)
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


def worded(whole: SavedPair, environ: Mapping[str, str], stamp: Stamp) -> str:
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
            "conversationHistory": _messages(whole.turns[PairPart.INSTRUCTOR]),
            "systemPrompt": words.rubric(pair),
        },
        "worker": {"conversationHistory": _messages(whole.turns[PairPart.WORKER])},
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


def _round(round_: PairRound, stamp: Stamp) -> dict[str, Any]:
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
