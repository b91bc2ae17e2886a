"""Pairs and their rounds, as rows and back."""

from __future__ import annotations

import json
from collections.abc import Mapping

from clew.core.pairs.pair import Order, Pair, PairPart, PairRound, Phase, PlannedMessage
from clew.core.record import Record
from clew.store.records import Row, dumps, flat, from_columns, record_from


class KeptFile(Record):
    """What is needed to see that a file has changed; its content is not stored."""

    size_bytes: int  # -1: the file did not exist
    changed_ns: int
    digest: str | None  # None: the file was not read


class KeptFiles(Record):
    """The state of the files when the worker last stopped."""

    run_id: str | None  # the worker's newest run at that time
    base_commit: str | None  # None: there was no commit yet; "": no git work tree
    files: Mapping[str, KeptFile]  # the files that differed from the commit; without git, all files


_LISTS = ("models", "changed_files", "fresh_parts", "planned_messages")


def pair_row(pair: Pair) -> Row:
    return {
        **flat(pair, without=_LISTS),
        "fresh_parts": dumps(list(pair.fresh_parts)),
        "planned_messages": dumps([[each.round, each.text] for each in pair.planned_messages]),
        "models": dumps(list(pair.models)),
        "changed_files": dumps(list(pair.changed_files)),
    }


def pair_from(row: Row) -> Pair:
    return from_columns(
        Pair,
        row,
        models=tuple(json.loads(row["models"])),
        changed_files=tuple(json.loads(row["changed_files"])),
        phase=Phase(row["phase"]),
        thinking=bool(row["thinking"]),
        is_finished=bool(row["is_finished"]),
        asked_again=bool(row["asked_again"]),
        stop_requested=bool(row["stop_requested"]),
        fresh_parts=tuple(PairPart(part) for part in json.loads(row["fresh_parts"])),
        planned_messages=tuple(
            PlannedMessage(int(number), str(text)) for number, text in json.loads(row["planned_messages"])
        ),
    )


def round_row(round_: PairRound) -> Row:
    return {
        **flat(round_, without=("order", "changed_files")),
        "changed_files": dumps(list(round_.changed_files)),
        "instructor_order": None if round_.order is None else dumps(round_.order.as_dict()),
    }


def round_from(row: Row) -> PairRound:
    order = row["instructor_order"]
    return from_columns(
        PairRound,
        row,
        changed_files=tuple(json.loads(row["changed_files"])),
        order=None if order is None else record_from(Order, json.loads(order)),
    )


def files_row(kept: KeptFiles) -> Row:
    return {
        "run_id": kept.run_id,
        "base_commit": kept.base_commit,
        "files": dumps({name: [file.size_bytes, file.changed_ns, file.digest] for name, file in kept.files.items()}),
    }


def files_from(row: Row) -> KeptFiles:
    files = {name: KeptFile(*fields) for name, fields in json.loads(row["files"]).items()}
    return KeptFiles(row["run_id"], row["base_commit"], files)
