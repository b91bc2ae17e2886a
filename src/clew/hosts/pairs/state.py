"""The state of a pair as one portable JSON file, from which another machine or directory can continue it.

Secrets are blanked in it, by their values in the environment and by their shape (core/secrets/redaction.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clew.core.history import Turn
from clew.core.pairs import prompts
from clew.core.pairs.pair import Order, Pair, PairPart, PairRound
from clew.core.record import Record
from clew.core.secrets import redaction
from clew.store.transfer.codec import with_texts
from clew.system.timestamps import stamp

VERSION = "1.0.0"
BLANKED = "[blanked]"


class SavedPair(Record):
    """Everything that the file contains."""

    pair: Pair
    rounds: tuple[PairRound, ...]
    turns: Mapping[PairPart, tuple[Turn, ...]]
    sessions: Mapping[PairPart, Mapping[str, str]]  # by model


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The secrets in the environment. What has the shape of a secret is blanked as well."""
    return tuple(redaction.secret_values(environ.items(), os.path.lexists))


def blank(text: str, secrets: Iterable[str]) -> str:
    """The text without secrets, and without lone surrogates, which not every reader accepts."""
    text, _ = redaction.blank(text, redaction.find_secrets(text, secrets), BLANKED)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def may_be_same(a: str, b: str) -> bool:
    """Whether two texts may be the same, although one of them was blanked, perhaps in another environment."""
    return a == b or _may_be_source(a, b) or _may_be_source(b, a)


def _may_be_source(text: str, blanked: str) -> bool:
    """Whether blanking some passages of `text` gives `blanked`."""
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


def state_json(whole: SavedPair, environ: Mapping[str, str]) -> str:
    """The content of the file. Its first fields are those of the older tool, under the same names."""
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
            "systemPrompt": prompts.rubric(pair),
        },
        "worker": {"conversationHistory": _messages(whole.turns[PairPart.WORKER])},
        "lastInstruction": order.instruction if order is not None else "",
        "lastInstructorResponse": None
        if order is None
        else _response(order) | {"workerModel": order.worker_model or pair.worker_model or ""},
        "name": pair.name,
        "task": pair.task,
        "agent": pair.agent,
        "models": list(pair.models),
        "phase": pair.phase.value,
        "finished": pair.is_finished,
        "lastRound": pair.last_round,
        "asking": pair.asking,
        "message": pair.message,
        "plannedMessages": [{"round": each.round, "text": each.text} for each in pair.planned_messages],
        "rounds": [_round(each) for each in rounds],
        "sessions": {part.value: dict(known) for part, known in whole.sessions.items()},
    }
    secrets = secrets_of(environ)
    blanked = with_texts(body, lambda text: blank(text, secrets))  # before JSON escapes characters of a secret
    return json.dumps(blanked, ensure_ascii=False, indent=2) + "\n"


def _messages(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    return [
        {"role": turn.role.value, "content": turn.text} | ({"partial": True} if turn.partial else {}) for turn in turns
    ]


def _response(order: Order) -> dict[str, Any]:
    return {
        "thinking": order.thinking,
        "instruction": order.instruction,
        "workerModel": order.worker_model,
        "shouldContinue": order.should_continue,
        "needsCorrection": order.needs_correction,
    }


def _round(round_: PairRound) -> dict[str, Any]:
    return {
        "number": round_.number,
        "message": round_.message,
        "changedFiles": list(round_.changed_files),
        "response": None if round_.order is None else _response(round_.order),
        "workerModel": round_.worker_model,
        "result": round_.result,
        "startedAt": stamp(round_.started_at),
        "endedAt": stamp(round_.ended_at),
    }
