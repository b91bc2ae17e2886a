"""A house: one daemon with its pool, and its clients."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from engine.warm.house import House


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder with a short name: the path of a socket has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="clew-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def house(tmp_path: Path, sockets: Path) -> AsyncIterator[House]:
    async with AsyncExitStack() as leaving:
        yield House(tmp_path, sockets, leaving)
