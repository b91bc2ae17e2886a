"""A sixth host needs the twelve files that docs/architecture.md lists.

A small one is added to a copy of Clew, and used.

`new/` holds its new files; `EDITS` are its lines in files that exist.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import clew
from clew.testing.stage import MODEL, Stage

NEW = Path(__file__).with_name("new")
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
TIMEOUT_S = 120.0

# By file: the text that comes next, and the lines that are added before it.
EDITS: dict[str, list[tuple[str, str]]] = {
    "core/thread.py": [('    "hook": ThreadKind(', '    "digest": ThreadKind("clew digests make asks again."),\n')],
    "store/store.py": [
        (
            "    @cached_property\n    def views(",
            "    @cached_property\n"
            "    def digests(self) -> DigestTable:\n"
            "        from clew.store.tables.digests import DigestTable\n\n"
            "        return DigestTable(self.database, self.versions)\n\n",
        ),
        ("\n    from clew.store.tables.hooks import", "\n    from clew.store.tables.digests import DigestTable"),
        (", self.pairs]", ", self.digests"),
    ],
    "api/client.py": [
        (
            "    @cached_property\n    def archives(",
            "    @cached_property\n"
            "    def digests(self) -> Digests:\n"
            "        from clew.hosts.digests import Digests\n\n"
            "        return Digests(self.engine)\n\n",
        ),
        ("\n    from clew.hosts.hooks.hooks import", "\n    from clew.hosts.digests import Digests"),
    ],
    "cli/commands.py": [('    "work": (', '    "digests": ("clew.cli.digests:digests", "Summarise threads."),\n')],
}

ROUTES = """
import asyncio, json, pathlib, sys
import httpx
import clew
from clew.server.app import App
from clew.server.security.access_policy import AccessPolicy
from clew.server.security.token import Credentials

async def main():
    async with clew.open() as client:
        app = App(client, AccessPolicy(Credentials("t" * 43), 7421), pathlib.Path("."))
        transport = httpx.ASGITransport(app.asgi)
        headers = {"Authorization": "Bearer " + "t" * 43}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7421", headers=headers) as http:
            print((await http.get("/api/digests")).text)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of Clew with the sixth host in it."""
    copy = tmp_path_factory.mktemp("six") / "clew"
    shutil.copytree(Path(clew.__file__).parent, copy, ignore=shutil.ignore_patterns("web", "__pycache__"))
    shutil.copytree(NEW, copy, dirs_exist_ok=True)
    for name, edits in EDITS.items():
        text = (copy / name).read_text()
        for before, added in edits:
            assert text.count(before) == 1, (name, before)
            text = text.replace(before, added + before)
        (copy / name).write_text(text)
    return copy


def test_it_has_the_files_that_the_architecture_lists() -> None:
    new = [str(path.relative_to(NEW)) for path in NEW.rglob("*.*") if "__pycache__" not in path.parts]
    files = {re.sub(r"\d{4}_", "00NN_", name).replace("digests", "NAME") for name in (*new, *EDITS)}
    _, section = ARCHITECTURE.read_text().split("## Adding a host")
    listed = re.findall(r"^\| `([^`]+)` \|", section.split("\n## ")[0], re.MULTILINE)
    assert files == set(listed)
    assert len(listed) <= 12


@pytest.mark.process
def test_it_asks_and_stores_and_its_rows_are_exported_and_imported(
    package: Path, scripted: Stage, tmp_path: Path
) -> None:
    def run(*command: str, home: str = "clew") -> str:
        environ = scripted.environ | {
            "CLEW_MODEL": MODEL,
            "PYTHONPATH": str(package.parent),
            "CLEW_HOME": str(tmp_path / home),
        }
        done = subprocess.run(
            [sys.executable, *command],
            env=environ,
            cwd=scripted.work,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    cli: Callable[..., str] = lambda *args, **where: run("-m", "clew", *args, **where)  # noqa: E731
    cli("ask", "-t", "talk", "hello")
    assert cli("digests", "make", "talk") == "ack: ack: hello\n"
    [made] = json.loads(cli("digests", "list"))
    assert made["about"] == "talk"
    assert json.loads(run("-c", ROUTES)) == [made]

    cli("threads", "export", "digest-of-talk", "--output", "digest.clew")
    cli("threads", "import", "digest.clew", home="other")
    assert json.loads(cli("digests", "list", home="other")) == [made]
    assert json.loads(cli("threads", "list", "--kind", "digest", "--json", home="other"))
