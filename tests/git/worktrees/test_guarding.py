"""Nothing that a repository or a remote names is run, nobody is asked for a password, and processes take turns."""

from __future__ import annotations

import asyncio
import http.server
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.git.worktrees.worktrees import CloseOutcome, WorkTrees
from git.worktrees.repositories import KEY, Repositories

pytestmark = pytest.mark.process

OPEN = """
import asyncio, os, sys
from pathlib import Path
from clew.git.worktrees.worktrees import WorkTrees
tree = asyncio.run(WorkTrees(Path(sys.argv[1]), dict(os.environ)).open(sys.argv[2], sys.argv[3]))
print(tree.made, tree.path, tree.branch, *tree.notes, sep="\\n")
"""


@pytest.mark.rest
async def test_nothing_runs_that_the_repository_names(repositories: Repositories) -> None:
    ran = repositories.folder / "ran"
    touch = f"touch {shlex.quote(str(ran))}"
    for hook in ("post-checkout", "post-merge", "post-rewrite", "reference-transaction", "post-index-change"):
        path = repositories.source / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\n{touch}\n")
        path.chmod(0o755)
    repositories.git("config", "filter.x.smudge", f"{touch}; cat")
    repositories.git("config", "filter.x.clean", f"{touch}; cat")
    repositories.git("config", "filter.x.required", "true")
    repositories.git("config", "core.fsmonitor", touch)
    repositories.git("config", "core.askPass", touch)
    repositories.git("config", "core.alternateRefsCommand", touch)
    repositories.git("config", "remote.origin.uploadpack", f"{touch}; git-upload-pack")
    repositories.push(b="1\n", **{".gitattributes": "* filter=x\n"})
    tree = await repositories.open()
    repositories.push(b="2\n")
    assert (await repositories.open()).notes == ()
    assert Path(tree.path, "b").read_text() == "2\n"
    Path(tree.path, "b").write_text("mine\n")
    await repositories.open()
    closed = await repositories.close()
    assert closed.outcome is CloseOutcome.ARCHIVED
    assert not ran.exists()


async def test_remote_that_is_a_command_is_not_run(repositories: Repositories) -> None:
    ran = repositories.folder / "ran"
    repositories.git("config", "remote.origin.url", f"ext::sh -c touch% {ran}")
    repositories.git("config", "protocol.ext.allow", "always")
    tree = await repositories.open()
    assert tree.notes[0] == "Not up to date: git fetch failed: transport 'ext' not allowed"
    assert not ran.exists()


@pytest.mark.rest
async def test_a_missing_remote_is_noted_and_the_tree_is_made(repositories: Repositories) -> None:
    tree = await repositories.open()
    repositories.hub.rename(repositories.folder / "moved.git")
    again = await repositories.open()
    assert again.path == tree.path
    assert again.notes[0].startswith("Not up to date: git fetch failed: ")
    other = await repositories.open("boss:charles/peon:5")
    assert (other.made, len(other.notes)) == (True, 1)


async def test_a_remote_that_does_not_answer_is_given_up(repositories: Repositories) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        repositories.git("config", "remote.origin.url", f"git://127.0.0.1:{server.getsockname()[1]}/x")
        tree = await repositories.trees(fetch_limit_s=0.5).open(str(repositories.source), KEY)
    assert (tree.made, tree.notes) == (True, ("Not up to date: git fetch took longer than 0 s.",))


async def test_nobody_is_asked_for_a_password(repositories: Repositories) -> None:
    asked = repositories.folder / "asked"
    program = repositories.folder / "askpass"
    program.write_text(f"#!/bin/sh\ntouch {asked}\n")
    program.chmod(0o755)
    repositories.git("config", "core.askPass", str(program))
    environ = {**repositories.other.environ, "SSH_ASKPASS": str(program), "GIT_ASKPASS": str(program), "DISPLAY": ":0"}
    with _asking_for_a_password() as url:
        repositories.git("config", "remote.origin.url", url)
        tree = await WorkTrees(repositories.home, environ).open(str(repositories.source), KEY)
    assert "terminal prompts disabled" in tree.notes[0]
    assert not asked.exists()


async def test_users_own_credentials_are_used(repositories: Repositories) -> None:
    seen = repositories.folder / "seen"
    ssh = repositories.folder / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" > {seen}\nfor last; do :; done\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    repositories.git("config", "remote.origin.url", f"ssh://hub.invalid{repositories.hub}")
    newest = repositories.push(a="two\n")
    environ = {**repositories.other.environ, "GIT_SSH_COMMAND": str(ssh), "GIT_SSH_VARIANT": "ssh"}
    tree = await WorkTrees(repositories.home, environ).open(str(repositories.source), KEY)
    assert (tree.notes, repositories.tip("HEAD", tree.path)) == ((), newest)
    assert "hub.invalid" in seen.read_text()


async def test_the_callers_git_variables_have_no_effect(repositories: Repositories) -> None:
    stray = {"GIT_DIR": str(repositories.other.work / ".git"), "GIT_WORK_TREE": "/", "GIT_INDEX_FILE": "x"}
    tree = await WorkTrees(repositories.home, {**repositories.other.environ, **stray}).open(
        str(repositories.source), KEY
    )
    assert repositories.git("rev-parse", "--git-common-dir", cwd=tree.path) == str(repositories.source / ".git")


@pytest.mark.rest
async def test_many_processes_open_the_same_key_at_once(repositories: Repositories) -> None:
    said = await asyncio.gather(*(_open_elsewhere(repositories, KEY) for _ in range(6)))
    assert sorted(lines[0] for lines in said) == [*["False"] * 5, "True"]
    assert len({tuple(lines[1:]) for lines in said}) == 1
    assert repositories.git("status", "--porcelain", cwd=said[0][1]) == ""


@pytest.mark.rest
async def test_many_keys_are_opened_and_closed_at_once(repositories: Repositories) -> None:
    keys = [f"boss:charles/peon:{number}" for number in range(1, 9)]
    repositories.push("feature", f="1\n")
    trees = repositories.trees()
    opened = await asyncio.gather(*(trees.open(str(repositories.source), key, start="feature") for key in keys))
    assert {tree.branch for tree in opened} == {f"clew/boss-{number}" for number in range(1, 9)}
    assert [tree.notes for tree in opened] == [()] * 8
    closed = await asyncio.gather(*(trees.close(str(repositories.source), key) for key in keys))
    assert {one.outcome for one in closed} == {CloseOutcome.REMOVED}
    assert (repositories.left(), repositories.branches()) == ([], {"main"})


@pytest.mark.rest
async def test_lock_outlives_a_killed_process_as_long_as_its_git_works(repositories: Repositories) -> None:
    gate, reached = repositories.folder / "gate", repositories.folder / "reached"
    os.mkfifo(gate)
    os.mkfifo(reached)
    slow = repositories.other.wrapped(f'if [ "$verb" = worktree ]; then echo > {reached}; cat {gate}; fi')
    first = _process(repositories, KEY, slow)
    await asyncio.to_thread(reached.read_text)
    first.kill()
    first.wait()
    second = asyncio.ensure_future(repositories.open())
    done, _ = await asyncio.wait([second], timeout=0.5)  # on a busy machine it can only pass
    assert not done, "a tree is being made by a git that outlived its process"
    await asyncio.to_thread(gate.write_text, "")
    tree = await second
    assert (tree.made, tree.branch) == (False, "clew/boss-4")
    assert repositories.git("status", "--porcelain", cwd=tree.path) == ""


@pytest.mark.rest
async def test_waiting_for_the_lock_can_be_cancelled(repositories: Repositories) -> None:
    gate, reached = repositories.folder / "gate", repositories.folder / "reached"
    os.mkfifo(gate)
    os.mkfifo(reached)
    slow = repositories.other.wrapped(f'if [ "$verb" = worktree ]; then echo > {reached}; cat {gate}; fi')
    first = _process(repositories, KEY, slow)
    await asyncio.to_thread(reached.read_text)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(repositories.open(), 0.3)  # on a busy machine it is only cancelled earlier
    await asyncio.to_thread(gate.write_text, "")
    assert first.wait() == 0
    assert (await repositories.open()).made is False, "the one that was cancelled holds no lock"


def _process(repositories: Repositories, key: str, environ: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", OPEN, str(repositories.home), str(repositories.source), key],
        env={**repositories.other.environ, **environ}, stdout=subprocess.DEVNULL,
    )  # fmt: skip


async def _open_elsewhere(repositories: Repositories, key: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPEN, str(repositories.home), str(repositories.source), key,
        env=repositories.other.environ, stdout=subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    return out.decode().splitlines()


@contextmanager
def _asking_for_a_password() -> Iterator[str]:
    class PasswordHandler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), PasswordHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/x"
        server.shutdown()
        thread.join()
