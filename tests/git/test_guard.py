"""Of all commands that git settings name, only the user's own run."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from clew.errors import UsageError
from clew.git import command as git
from clew.git import guard as git_guard
from clew.git.command import agent_environment
from clew.git.guard import GitSetting
from git import trap

pytestmark = pytest.mark.process

# Git commands that an agent or its model may run. A filter process that fails ends every other command. The pager
# needs a terminal, which `script` provides.
COMMANDS = """\
git status --porcelain
git config --unset filter.two=x.process
git status --porcelain
git diff
git diff --no-ext-diff
git log -p -1
script -qec 'git log -1' /dev/null
script -qec 'git branch' /dev/null
echo q | git add -p b.txt
git add -A
git commit -qm second --trailer x=1
git -c gpg.format=openpgp commit -S --allow-empty -qm signed
git -c gpg.format=ssh commit -S --allow-empty -qm signed
git -c gpg.format=ssh -c user.signingKey=key commit -S --allow-empty -qm signed
git commit --allow-empty --amend
git merge -q side -m merged
git rebase -qi HEAD~1
git checkout -q -b other HEAD~1
git st
git fetch origin
git fetch here
git push here HEAD:pushed
git fetch ssh://127.0.0.1/x
git fetch git://127.0.0.1:1/x
echo url=http://127.0.0.1/ | git credential fill
git archive --format=foo HEAD
git difftool -y -t x HEAD~1
git submodule update --force sub
git help -m log
git web--browse -c web.browser file:///dev/null
"""
# Those that the plain git of these tests runs, so that the test proves something. Paging and signing differ by version.
RUNS = {
    *(
        "clean",
        "smudge",
        "process",
        "worktree",
        "included",
        "submodule-clean",
        "textconv",
        "command",
        "external",
        "merge",
    ),
    *("fsmonitor", "pager", "pager-log", "editor", "sequence-editor", "ssh", "proxy", "askpass", "credential"),
    *("credential-url", "gpg", "gpgssh", "default-key", "alias-st", "remote", "uploadpack", "receivepack", "trailer"),
    *("tar", "submodule", "difftool"),
    *(
        "hook-post-index-change",
        "hook-pre-commit",
        "hook-post-commit",
        "hook-post-checkout",
        "hook-reference-transaction",
    ),
    *("hook-prepare-commit-msg", "hook-post-merge", "hook-post-rewrite", "hook-pre-push"),
}


def environ_of(folder: Path, **more: str) -> dict[str, str]:
    (folder / "home").mkdir(exist_ok=True)
    (folder / "home" / ".gitconfig").write_text(
        '[user]\n\tname = T\n\temail = t@localhost\n[protocol "file"]\n\tallow = always\n'
    )
    return {"HOME": str(folder / "home"), "PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"} | more


def run_all(repo: Path, environ: Mapping[str, str]) -> None:
    for line in COMMANDS.splitlines():
        subprocess.run(
            ["timeout", "-k", "1", "10", "sh", "-c", line],
            cwd=repo,
            env=environ,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )


@pytest.mark.rest
@pytest.mark.parametrize("guarded", [True, False])
async def test_no_command_of_the_repository_runs(tmp_path: Path, guarded: bool) -> None:
    repo, ran = trap.repository(tmp_path / "repo"), tmp_path / "ran"
    trap.arm(repo, ran)
    environ = environ_of(tmp_path)
    if guarded:
        environ = await agent_environment(environ, str(repo))
        assert trap.marks(ran) == set(), "reading the settings runs nothing"
    trap.change(repo)
    run_all(repo, environ)
    assert RUNS & trap.marks(ran) == (set() if guarded else RUNS)
    if guarded:
        assert trap.marks(ran) == set()


@pytest.mark.rest
async def test_the_users_own_commands_still_run(tmp_path: Path) -> None:
    repo, ran = trap.repository(tmp_path / "repo"), tmp_path / "ran"
    trap.arm(repo, ran)
    settings = environ_of(tmp_path)
    own = tmp_path / "own"
    own.mkdir()
    hook = own / "pre-commit"
    hook.write_text(f"#!/bin/sh\ntouch {own}/hook\n")
    hook.chmod(0o755)
    with (tmp_path / "home" / ".gitconfig").open("a") as file:
        file.write(f'[core]\n\thooksPath = {own}\n[filter "one"]\n\tclean = "touch {own}/clean; cat"\n')
        file.write(f'[credential]\n\thelper = "!touch {own}/first"\n\thelper = "!touch {own}/second"\n')
        file.write(f'[alias]\n\tst = "!touch {own}/alias"\n')
    count = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "diff.external",
        "GIT_CONFIG_VALUE_0": f"touch {own}/external",
    }
    before = {**settings, **count, git_guard.VARIABLE: f"'core.editor'='touch {own}/editor'"}
    environ = await agent_environment(before, str(repo))
    assert {key: environ[key] for key in count} == count
    trap.change(repo)
    run_all(repo, environ)
    assert trap.marks(ran) == set()
    assert trap.marks(own) == {"pre-commit", "hook", "clean", "first", "second", "alias", "external", "editor"}


async def test_settings_are_read_again_for_each_attempt(tmp_path: Path) -> None:
    repo, environ = trap.repository(tmp_path / "repo"), environ_of(tmp_path)
    first = await agent_environment(environ, str(repo))
    assert first[git_guard.VARIABLE] == "'core.hooksPath=/dev/null'"
    trap.git(repo, "config", "filter.it's!.clean", "evil")
    second = await agent_environment(environ, str(repo))
    assert second[git_guard.VARIABLE] == "'core.hooksPath=/dev/null' 'filter.it'\\''s'\\!'.clean='"
    asked = ["git", "config", "--get", "filter.it's!.clean"]
    assert subprocess.run(asked, cwd=repo, env=second, capture_output=True, check=True).stdout == b"\n"


async def test_outside_of_a_repository_and_without_git(tmp_path: Path) -> None:
    environ = environ_of(tmp_path)
    assert (await agent_environment(environ, str(tmp_path)))[git_guard.VARIABLE] == "'core.hooksPath=/dev/null'"
    without = {**environ, "PATH": str(tmp_path)}
    assert await agent_environment(without, str(tmp_path)) == without


async def test_the_users_settings_are_cached_and_a_new_repository_is_seen_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    environ = environ_of(tmp_path)

    async def seen() -> str:
        return (await agent_environment(environ, str(folder)))[git_guard.VARIABLE]

    assert await seen() == "'core.hooksPath=/dev/null'"
    (Path(environ["HOME"]) / ".gitconfig").write_text("[core]\n\thooksPath = /mine\n")
    assert await seen() == "'core.hooksPath=/dev/null'"
    monkeypatch.setattr(git, "USER_SETTINGS_S", 0.0)
    assert await seen() == "'core.hooksPath=/mine'"
    monkeypatch.setattr(git, "USER_SETTINGS_S", 1000.0)
    trap.git(folder, "init", "-q")
    trap.git(folder, "config", "filter.x.clean", "evil")
    assert await seen() == "'core.hooksPath=/mine' 'filter.x.clean='"
    linked = tmp_path / "linked"
    linked.symlink_to(folder)
    (folder / "below").mkdir()
    below = await agent_environment(environ, str(linked / "below"))
    assert below[git_guard.VARIABLE] == "'core.hooksPath=/mine' 'filter.x.clean='"


def test_more_commands_than_an_environment_holds() -> None:
    found = [GitSetting("local", f"filter.{number:090}.clean", "evil") for number in range(1000)]
    with pytest.raises(UsageError) as error:
        git_guard.environment([found], {})
    assert error.value.message == "The repository's git settings name 1001 commands, more than can be switched off."


@pytest.mark.parametrize(
    ("name", "value", "added"),
    [
        ("interactive.difffilter", "evil", [("interactive.difffilter", "cat")]),
        ("hook.x.command", "evil", [("hook.x.command", "true")]),
        ("lfs.extension.x.clean", "evil", [("lfs.extension.x.clean", "cat")]),
        ("lfs.customtransfer.x.path", "evil", [("lfs.customtransfer.x.path", "")]),
        ("remote.x.vcs", "evil", [("remote.x.vcs", "")]),
        ("remote.x.uploadpack", "evil", [("protocol.file.allow", "never")]),
        ("protocol.allow", "always", [("protocol.allow", "user"), ("protocol.ext.allow", "never")]),
        ("protocol.https.allow", "never", [("protocol.https.allow", "always")]),
        ("gc.recentobjectshook", "evil", [("gc.auto", "0"), ("maintenance.auto", "false")]),
        ("mergetool.x.path", "evil", [("mergetool.x.path", "")]),
        ("sendemail.me.tocmd", "evil", [("sendemail.me.tocmd", "")]),
        ("submodule.x.update", "rebase", []),
        ("submodule.x.update", "!evil", [("submodule.x.update", "checkout")]),
        ("core.autocrlf", "true", []),
        ("branch.main.remote", "origin", []),
    ],
)
def test_the_value_that_replaces_a_command(name: str, value: str, added: list[tuple[str, str]]) -> None:
    hooks = ("core.hooksPath", "/dev/null")
    assert git_guard.overrides([GitSetting("local", name, value)]) == [hooks, *added]
    assert git_guard.overrides([GitSetting("global", name, value)]) == [hooks]
