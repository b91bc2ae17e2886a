"""Reviews and their rounds, as rows and back."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

from clew.core.costs.usage import Usage
from clew.core.reviews.review import (
    FileChange,
    Finding,
    FindingState,
    FindingVerdict,
    Review,
    ReviewAnswer,
    ReviewRound,
    RoundStatus,
    Scope,
    Severity,
)
from clew.core.runs.run import Owner
from clew.store.records import Row, dumps, flat, from_columns, owner_columns, record_from


def review_row(review: Review) -> Row:
    return {**flat(review, without=("paths",)), "paths": dumps(list(review.paths))}


def review_from(row: Row) -> Review:
    return from_columns(Review, row, scope=Scope(row["scope"]), paths=tuple(json.loads(row["paths"])))


def round_row(round_: ReviewRound) -> Row:
    answer = round_.answer
    return {
        **flat(round_, without=("owner", "usage", "changes", "changed_since", "answer")),
        **flat(round_.usage),
        **owner_columns(round_.owner),
        "changes": dumps([change.as_dict() for change in round_.changes]),
        "changed_since": dumps(list(round_.changed_since)),
        "answer": None if answer is None else dumps(answer.as_dict()),
    }


def round_from(row: Row) -> ReviewRound:
    return from_columns(
        ReviewRound,
        row,
        status=RoundStatus(row["status"]),
        owner=Owner(row["owner_host"], row["owner_pid"], row["owner_started"]),
        usage=from_columns(Usage, row),
        changes=tuple(record_from(FileChange, change) for change in json.loads(row["changes"])),
        changed_since=tuple(json.loads(row["changed_since"])),
        session_resumed=bool(row["session_resumed"]),
        fallback=bool(row["fallback"]),
        answer=None if row["answer"] is None else _answer_from(json.loads(row["answer"])),
    )


def _answer_from(body: Mapping[str, Any]) -> ReviewAnswer:
    return ReviewAnswer(
        body["summary"],
        tuple(
            record_from(Finding, each | {"severity": Severity(each["severity"]), "state": FindingState(each["state"])})
            for each in body["findings"]
        ),
        tuple(record_from(FindingVerdict, each | {"state": FindingState(each["state"])}) for each in body["earlier"]),
    )


def packed(data: bytes) -> str:
    """The bytes, compressed and encoded as text: a diff compresses well."""
    return base64.b85encode(zlib.compress(data, 6)).decode("ascii")


def unpacked(text: str, max_bytes: int = 0) -> bytes:
    """Raises ValueError for text that is not packed, or that unpacks to more than `max_bytes` (0: no limit)."""
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(base64.b85decode(text), max_bytes)
    except zlib.error as error:
        raise ValueError("not packed") from error
    if not unpacking.eof:
        raise ValueError("cut off, or too large")
    return data


def packed_files(files: Mapping[str, bytes]) -> str:
    body = {path: base64.b64encode(data).decode("ascii") for path, data in files.items()}
    return packed(json.dumps(body).encode())


def unpacked_files(text: str) -> dict[str, bytes]:
    return {path: base64.b64decode(data) for path, data in json.loads(unpacked(text)).items()}


def is_packed(text: str, *, files: bool, max_bytes: int) -> bool:
    """Whether the text can be unpacked, and to at most that many bytes."""
    try:
        body = unpacked(text, max_bytes)
        if files:
            return all(isinstance(base64.b64decode(data), bytes) for data in json.loads(body).values())
        body.decode("utf-8", "surrogatepass")
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False
    return True


def shown_in(row: Mapping[str, Any]) -> list[bytes]:
    """The packed contents of a round's row: the diff and the files. Empty when they cannot be unpacked."""
    try:
        return [unpacked(row["diff"]), *unpacked_files(row["files"]).values()]
    except (ValueError, TypeError, AttributeError, LookupError):
        return []
