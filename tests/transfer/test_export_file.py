"""The container: the same parts give the same bytes, and only what Clew writes is read."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import UsageError
from clew.hosts.transfer.export_file import HISTORY, MANIFEST, STATE, VERSION, pack, session_part, unpack
from clew.store.transfer.codec import as_json, from_json

ABOUT = {"schema": 1, "redacted": False, "thread": {"name": "t"}}
PARTS = {HISTORY: b'{"turns":[]}\n', STATE: b"{}\n", "sessions/claude/0-a.jsonl": b"line\n"}
WHOLE = pack(ABOUT, PARTS)


def made_of(*members: tuple[str, bytes], **changes: Any) -> bytes:
    """A zip with a manifest that matches its members, unless `changes` say otherwise."""
    import hashlib

    listed = [
        {"name": name, "size_bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()} for name, part in members
    ]
    manifest = {"format": "clew-thread", "version": VERSION, "parts": listed, **ABOUT, **changes}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(MANIFEST, json.dumps(manifest))
        for name, part in members:
            archive.writestr(name, part)
    return out.getvalue()


def test_parts_come_back_as_they_were() -> None:
    found = unpack(WHOLE)
    assert dict(found.parts) == PARTS
    assert {key: found.manifest[key] for key in ABOUT} == ABOUT
    assert unpack(made_of(*PARTS.items())).parts == PARTS, "the control: the maker of hostile files makes good ones"


def test_same_parts_give_the_same_bytes_with_fixed_order_times_and_modes() -> None:
    assert pack(ABOUT, dict(reversed(PARTS.items()))) == WHOLE
    with zipfile.ZipFile(io.BytesIO(WHOLE)) as archive:
        listed = archive.infolist()
    assert [info.filename for info in listed] == [MANIFEST, *sorted(PARTS)]
    assert {info.date_time for info in listed} == {(1980, 1, 1, 0, 0, 0)}
    assert {info.external_attr >> 16 for info in listed} == {stat.S_IFREG | 0o600}


def test_no_flipped_byte_goes_unnoticed() -> None:
    good = unpack(WHOLE)
    for place in range(len(WHOLE)):
        flipped = bytearray(WHOLE)
        flipped[place] ^= 0x41
        try:
            found = unpack(bytes(flipped))
        except UsageError:
            continue
        assert (found.manifest, found.parts) == (good.manifest, good.parts), f"byte {place}: a time or the like"


@pytest.mark.parametrize("end", [0, 1, 30, 200, len(WHOLE) // 2, len(WHOLE) - 1])
def test_truncated_file_is_refused(end: int) -> None:
    with pytest.raises(UsageError):
        unpack(WHOLE[:end])


@given(st.binary(max_size=400))
@settings(max_examples=60, deadline=None)
def test_rubbish_is_refused_in_one_line(rubbish: bytes) -> None:
    for raw in (rubbish, b"PK\x03\x04" + rubbish, WHOLE[:40] + rubbish):
        with pytest.raises(UsageError) as caught:
            unpack(raw)
        assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "name",
    [
        "../evil.jsonl",
        "sessions/../../evil.jsonl",
        "/etc/passwd",
        "sessions/claude/../../../x.jsonl",
        "sessions\\claude\\x.jsonl",
        "sessions/CLAUDE/x.jsonl",
        "sessions/claude/x.jsonl/",
        "sessions/claude/x y.jsonl",
        "sessions/claude/.jsonl",
        "C:evil.jsonl",
        "notes.txt",
    ],
)
def test_unknown_part_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        unpack(made_of(*PARTS.items(), (name, b"x")))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", [HISTORY, "HISTORY.JSON", "sessions/claude/0-A.jsonl", MANIFEST])
def test_duplicate_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        unpack(made_of(*PARTS.items(), (name, PARTS[HISTORY])))


def _link(info: zipfile.ZipInfo) -> None:
    info.external_attr = (stat.S_IFLNK | 0o777) << 16


def _bomb(info: zipfile.ZipInfo) -> None:
    info.compress_type = zipfile.ZIP_DEFLATED


@pytest.mark.parametrize(("change", "says"), [(_link, "link"), (_bomb, "compressed")])
def test_links_and_bombs_are_refused(change: Callable[[zipfile.ZipInfo], None], says: str) -> None:
    content = b"\0" * 5_000_000
    raw = made_of((HISTORY, content))
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        manifest = archive.read(MANIFEST)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(MANIFEST, manifest)
        info = zipfile.ZipInfo(HISTORY)
        change(info)
        archive.writestr(info, content)
    with pytest.raises(UsageError, match=says if says == "link" else "compressed|larger"):
        unpack(out.getvalue())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"version": VERSION + 1}, "newer Clew"),
        ({"version": VERSION + 1, "parts": "laid out otherwise"}, "newer Clew"),
        ({"version": 0}, "version"),
        ({"version": True}, "version"),
        ({"version": "1"}, "version"),
        ({"format": "something"}, "not an export"),
        ({"parts": []}, "manifest"),
        ({"parts": [{"name": HISTORY}]}, "manifest"),
        ({"parts": [{"name": HISTORY, "size_bytes": 2, "sha256": "0"}]}, "manifest|damaged"),
        ({"parts": None}, "manifest"),
    ],
)
def test_manifest_must_match_the_parts(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        unpack(made_of(*PARTS.items(), **changes))


def test_wrong_size_is_refused() -> None:
    listed = [
        {"name": name, "size_bytes": len(part) + 1, "sha256": __import__("hashlib").sha256(part).hexdigest()}
        for name, part in PARTS.items()
    ]
    with pytest.raises(UsageError, match="damaged"):
        unpack(made_of(*PARTS.items(), parts=listed))


def test_deep_or_huge_json_is_refused() -> None:
    for content in (b"[" * 200_000, b"1" * 10_000, b'{"a": NaN', b"\xff\xfe"):
        with pytest.raises(UsageError):
            from_json(content)


@given(
    st.recursive(st.none() | st.text() | st.integers(-(2**63), 2**63 - 1), lambda inner: st.lists(inner, max_size=3))
)
@settings(max_examples=60, deadline=None)
def test_json_comes_back_as_it_was(value: Any) -> None:
    assert from_json(as_json(value)) == value
    assert from_json(as_json("\ud83d\ude00 \udc00")) == "\ud83d\ude00 \udc00", "two halves stay two halves"


def test_session_part_is_never_a_path() -> None:
    assert session_part("claude", "0a-1") == "sessions/claude/0a-1.jsonl"
    assert [session_part("claude", word) for word in ("../x", "", "a/b", "a.b", "a\n")] == [None] * 5
    assert session_part("../claude", "a") is None
