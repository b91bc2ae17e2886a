"""Where a resident listens, and what is sent to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew import config
from clew.resident import location, request

SLOW_TO_LOAD = {
    "asyncio",
    "click",
    "contextlib",
    "enum",
    "functools",
    "hashlib",
    "json",
    "pathlib",
    "re",
    "signal",
    "socket",
}


def path(environ: dict[str, str], *, version: str = "1", package: str = "/lib/clew") -> str:
    return location.socket_path(environ, version, package, location.home(environ))


def test_another_home_version_or_installation_has_another_socket() -> None:
    environ = {"HOME": "/home/me", "XDG_RUNTIME_DIR": "/run/me"}
    found = {
        path(environ),
        path(environ, version="2"),
        path(environ, package="/other/clew"),
        path({**environ, "CLEW_HOME": "/elsewhere"}),
        path({**environ, "XDG_STATE_HOME": "/state"}),
    }
    assert len(found) == 5
    assert {str(Path(each).parent) for each in found} == {"/run/me/clew"}
    assert path({**environ, "CLEW_HOME": "/home/me/.local/state//clew/"}) == path(environ)


def test_without_a_runtime_folder_it_is_one_of_the_user_below_tmp() -> None:
    for value in ({}, {"XDG_RUNTIME_DIR": ""}, {"XDG_RUNTIME_DIR": "relative"}):
        assert location.folder(value) == f"/tmp/clew-{os.geteuid()}"


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"HOME": "/h"}, "/h/.local/state/clew"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s/clew"),
        ({"HOME": "/h", "CLEW_HOME": "/c"}, "/c"),
        ({"HOME": "/h", "CLEW_HOME": "here"}, str(Path.cwd() / "here")),
        ({"HOME": "/h", "CLEW_HOME": "~/x"}, str(Path("~/x").expanduser())),
        ({}, str(Path("~/.local/state/clew").expanduser())),
    ],
)
def test_the_home(environ: dict[str, str], home: str) -> None:
    assert str(config.home(environ)) == location.home(environ) == home


def test_only_a_private_folder_of_this_user_will_do(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir(mode=0o700)
    link.symlink_to(folder)
    location.check_private(str(folder))
    for bad in (link, tmp_path / "none"):
        with pytest.raises(OSError):
            location.check_private(str(bad))
    folder.chmod(0o710)
    with pytest.raises(location.NotPrivate):
        location.check_private(str(folder))


def a_request(**changes: Any) -> request.Request:
    given: dict[str, Any] = {
        "version": "1",
        "install": "/lib 1 2",
        "user": 1,
        "group": 2,
        "groups": [2, 3],
        "mask": 0o022,
        "flags": "(3, 11) ()",
        "ignored": [1],
        "streams": ["0:utf-8:strict"],
        "files": ["0", "folder"],
        "arguments": ["clew", "ask", "", "two\nlines ü \udcff"],
        "environ": {b"A": b"1=2", b"EMPTY": b"", b"\xff": b"\xfe"},
    }
    return request.Request(**(given | changes))


def test_a_request_arrives_as_it_was_sent() -> None:
    for sent in (a_request(), a_request(groups=[], ignored=[], streams=[], environ={}, arguments=["clew"])):
        content = sent.encode()
        length, body = content[: request.LENGTH_BYTES], content[request.LENGTH_BYTES :]
        assert int.from_bytes(length, "big") == len(body)
        found = request.decode(body)
        for name in request.Request.__slots__:
            assert getattr(found, name) == getattr(sent, name), name


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"other\0" + b"1\0" * 20, a_request().encode()[8:-60]])
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        request.decode(content)


@pytest.mark.process
def test_handing_over_loads_almost_nothing() -> None:
    """Everything that this loads delays each command."""
    code = "import sys; before = {*sys.modules}; import clew.__main__, clew.resident.client, clew.resident.location; "
    code += "import _blake2; print(*({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = {*done.stdout.split()}
    assert not loaded & SLOW_TO_LOAD
    assert {name for name in loaded if name.startswith("clew")} == {
        *("clew", "clew.__main__", "clew.resident", "clew.resident.client", "clew.resident.location"),
        *("clew.resident.request", "clew.resident.start"),
    }
