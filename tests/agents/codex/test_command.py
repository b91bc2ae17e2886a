"""The Codex CLI's command line, environment and prompt."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from clew.agents.adapter import Binary, ImageFile, LaunchProfile
from clew.agents.codex import Codex
from clew.core.decision import Abilities
from clew.core.record import replace
from clew.core.thread import Permissions, Trust
from clew.errors import UsageError
from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage, real_codex

codex = Codex()

BINARY = Binary("/bin/codex", "PATH")
CAN = Abilities(resume=True, choose_id=False, flags=frozenset({"--json", "--ignore-rules"}))
SESSION = "01a1deea-df82-76f2-9bd3-794707014e7d"


def words(
    *, resume: bool = False, permissions: Permissions = Permissions.ASK, trust: Trust = Trust.USER, work_dir: str = "/w"
) -> list[str]:
    launch = LaunchProfile(SESSION, resume, "gpt-x", permissions, trust, work_dir)
    return codex.command(BINARY, CAN, launch)


def settings(argv: list[str]) -> dict[str, object]:
    """Every -c option, parsed as TOML."""
    given = [argv[n + 1] for n, word in enumerate(argv) if word == "-c"]
    return {key: tomllib.loads(f"v = {value}")["v"] for key, _, value in (each.partition("=") for each in given)}


class TestCommand:
    def test_first_turn_and_resume_differ_only_in_the_session(self) -> None:
        fresh, resumed = words(), words(resume=True)
        assert fresh[:5] == ["/bin/codex", "exec", "--json", "--skip-git-repo-check", "--model"]
        assert resumed[:3] == ["/bin/codex", "exec", "resume"]
        assert resumed[-2:] == [SESSION, "-"]
        assert [word for word in resumed if word not in ("resume", SESSION)] == fresh

    @pytest.mark.parametrize("word", ["last", "--last", "", SESSION.upper(), f"{SESSION}\n", f" {SESSION}"])
    def test_an_id_that_is_not_a_uuid_is_not_resumed(self, word: str) -> None:
        with pytest.raises(UsageError):
            codex.command(BINARY, CAN, LaunchProfile(word, True, None, Permissions.ASK, Trust.USER))

    def test_a_copy_is_forked_off_with_the_same_flags(self) -> None:
        launch = LaunchProfile("ours", True, "gpt-x", Permissions.ASK, Trust.USER, "/w", fork_of=SESSION)
        forked = codex.command(BINARY, CAN, launch)
        assert forked == ["fork" if word == "resume" else word for word in words(resume=True)]
        with pytest.raises(UsageError):
            codex.command(BINARY, CAN, replace(launch, fork_of="last"))
        with pytest.raises(UsageError, match="whole"):
            codex.command(BINARY, CAN, replace(launch, rewind_to=SESSION))

    def test_options_follow_the_images_of_a_prompt(self) -> None:
        images = (ImageFile("/h/images/a b", "image/png"), ImageFile("/h/images/c", "image/gif"))
        launch = LaunchProfile(SESSION, True, "gpt-x", Permissions.ASK, Trust.USER, "/w", images=images)
        argv = codex.command(BINARY, CAN, launch)
        assert argv[3:6] == ["--image=/h/images/a b", "--image=/h/images/c", "--json"], "`exec` takes what follows"
        assert [word for word in argv if not word.startswith("--image")] == words(resume=True)
        with pytest.raises(UsageError, match="comma"):
            codex.command(BINARY, CAN, replace(launch, images=(ImageFile("/h,ome/a", "image/png"),)))

    def test_permissions_are_the_sandbox(self) -> None:
        modes = {each: settings(words(permissions=each))["sandbox_mode"] for each in Permissions}
        assert modes == {
            Permissions.ASK: "read-only",
            Permissions.READ_ONLY: "read-only",
            Permissions.EDITS: "workspace-write",
            Permissions.ALL: "danger-full-access",
        }
        assert {settings(words(permissions=each))["approval_policy"] for each in Permissions} == {"never"}
        unruled = {each for each in Permissions if "--ignore-rules" in words(permissions=each)}
        assert unruled == {Permissions.ASK, Permissions.READ_ONLY}, (
            "the user's rules may allow commands outside the sandbox"
        )

    def test_hidden_folders_are_in_a_profile_with_the_users_own_sandbox_settings(self, tmp_path: Path) -> None:
        table = (
            '[sandbox_workspace_write]\nwritable_roots = ["/more"]\nexclude_slash_tmp = true\nnetwork_access = true\n'
        )
        (tmp_path / "config.toml").write_text(table)
        launch = LaunchProfile(SESSION, False, None, Permissions.EDITS, Trust.USER, "/w", str(tmp_path), ("/hid den",))
        new = replace(CAN, version="0.163.0")
        given = settings(codex.command(BINARY, new, launch))
        assert (given["sandbox_mode"], given["default_permissions"]) == ("workspace-write", "clew")
        files = {":root": "read", ":workspace_roots": {".": "write"}, ":tmpdir": "write", "/more": "write"}
        assert given["permissions.clew"] == {
            "filesystem": {**files, "/hid den": "none"},
            "network": {"enabled": True},
        }
        inside = settings(codex.command(BINARY, new, replace(launch, work_dir="/hid den/worktrees/a")))
        assert inside["permissions.clew"]["filesystem"]["/hid den/worktrees/a"] == "write"  # type: ignore[index]
        for permissions in (Permissions.ASK, Permissions.READ_ONLY):
            given = settings(codex.command(BINARY, new, replace(launch, permissions=permissions)))
            assert given["permissions.clew"] == {
                "filesystem": {":root": "read", "/hid den": "none"},
                "network": {"enabled": False},
            }
        (tmp_path / "config.toml").write_text("features.use_legacy_landlock = true\n")
        without = [
            codex.command(BINARY, new, launch),
            codex.command(BINARY, replace(CAN, version="0.162.9"), launch),
            codex.command(BINARY, new, replace(launch, permissions=Permissions.ALL)),
        ]
        assert not any("default_permissions" in settings(argv) for argv in without)

    @pytest.mark.parametrize("name", ["plain", "with.dots and spaces", 'quo"te\\', "é🎉", "\x7f\x01"])
    def test_work_directory_is_named_as_untrusted(self, tmp_path: Path, name: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        link = tmp_path / "link"
        link.symlink_to(folder)
        given = settings(words(work_dir=str(link)))
        assert given["projects"] == {str(folder): {"trust_level": "untrusted"}}, "with links resolved, as Codex sees it"
        assert given["project_root_markers"] == []

    def test_trusted_project_is_the_repository_up_to_its_root(self, tmp_path: Path) -> None:
        work_dir = tmp_path / "repository" / "a" / "b"
        work_dir.mkdir(parents=True)
        (tmp_path / "repository" / ".git").mkdir()
        given = settings(words(trust=Trust.PROJECT, work_dir=str(work_dir)))
        folders = [work_dir, work_dir.parent, work_dir.parents[1]]
        assert given["projects"] == {str(folder): {"trust_level": "trusted"} for folder in folders}
        assert "project_root_markers" not in given


class TestInput:
    @pytest.mark.parametrize(
        ("text", "sent"),
        [("é\r\n", "é\r\n".encode()), ("\ufeffx", b"x"), ("half \ud83d", b"half ?"), ("/x @y", b"/x @y")],
    )
    def test_the_prompt_is_always_utf_8(self, text: str, sent: bytes) -> None:
        assert codex.prompt_line(text, "u") == sent
        assert codex.prompt_id(text, "u") == codex.prompt_id(sent.decode(), "another")

    def test_different_texts_have_different_ids(self) -> None:
        assert codex.prompt_id("a", "u") != codex.prompt_id("a ", "u")


@pytest.mark.real
def test_variables_that_a_codex_session_sets_are_not_inherited(tmp_path: Path) -> None:
    """The real binary shows which variables it sets, so that a new one is noticed here."""
    with ModelApi() as api:
        stage = Stage(tmp_path, api, scripted_agent.install(tmp_path / "agent"), codex=real_codex())
        for permissions in (Permissions.ALL, Permissions.EDITS):
            argv = codex.command(
                Binary(str(real_codex()), "PATH"),
                CAN,
                LaunchProfile(SESSION, False, None, permissions, Trust.USER, str(stage.work)),
            )
            subprocess.run(
                argv,
                input=f"!tool exec_command {json.dumps({'cmd': 'env -0 > seen'})}".encode(),
                env=stage.environ,
                cwd=stage.work,
                check=True,
                capture_output=True,
                timeout=60,
            )
            seen = dict(
                each.decode().partition("=")[::2] for each in (stage.work / "seen").read_bytes().split(b"\0") if each
            )
            left = {key for key in codex.environment(seen) if key.startswith("CODEX")}
            assert left == {"CODEX_HOME"}
            assert "CODEX_THREAD_ID" in seen
