"""Which launches count as equal: those that would make equal processes."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from clew.engine.warm.session import Launch, credential_in, launch_digest

KEY = b"k" * 32


@contextmanager
def another_umask() -> Iterator[None]:
    before = os.umask(0o027)
    try:
        os.umask(before ^ 0o007)
        yield
    finally:
        os.umask(before)


@contextmanager
def a_lower_limit() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("change", [another_umask, a_lower_limit])
def test_what_an_agent_inherits_besides_its_environment_counts(
    tmp_path: Path, change: Callable[[], AbstractContextManager[None]]
) -> None:
    """With another umask, files that an agent makes could be read by others."""
    launch = Launch(["/bin/sh"], str(tmp_path), {"PATH": "/bin"}, ())
    before = launch_digest(KEY, launch)
    with change():
        assert launch_digest(KEY, launch) != before
    assert launch_digest(KEY, launch) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANTHROPIC_API_KEY", "x"),
        ("ANTHROPIC_CUSTOM_HEADERS", "X-Team: a\nAuthorization: Bearer abc"),
        ("ANTHROPIC_CUSTOM_HEADERS", "x-api-key: abc"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=abc"),
        ("GIT_CONFIG_VALUE_0", "AUTHORIZATION: basic abc"),
        ("HTTPS_PROXY", "http://user:password@proxy:3128"),
    ],
)
def test_what_counts_as_a_credential_of_the_caller(name: str, value: str) -> None:
    assert credential_in({"HOME": "/home/me", name: value}) == name


def test_what_does_not() -> None:
    shown = {
        "SSH_AUTH_SOCK": "/tmp/ssh",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Team: a",
        "PS1": "\\u@\\h: \\w$ ",
        "LS_COLORS": "di=01;34:*.key=00;33",
        "ANTHROPIC_API_KEY": "",
    }
    assert credential_in(shown) is None
