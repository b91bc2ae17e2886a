"""`clew doctor` and `clew config`: what is installed, what is wrong, and how to fix it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.testing.stage import real_codex
from cli.conftest import TIMEOUT_S


def test_a_healthy_setup_has_no_problems(both: Any) -> None:
    done = both.run("doctor", "--json")

    assert done.code == 0
    found = done.json
    [agent, codex] = found["agents"]
    assert (agent["name"], agent["path"], agent["found_by"]) == ("claude", str(both.stage.binary), "PATH")
    assert (agent["resume"], agent["choose_id"], agent["asks"]) == (True, True, True)
    assert (codex["name"], codex["path"], codex["found_by"]) == ("codex", str(real_codex()), "openai-codex-cli-bin")
    assert (codex["resume"], codex["choose_id"], codex["asks"]) == (True, False, False)
    assert codex["sessions"] == str(both.stage.home / ".codex")
    assert found["notes"] == []
    assert agent["version"]
    assert found["store"]["path"] == str(both.stage.clew_home / "clew.db")
    assert (found["runs"]["free_slots"], found["problems"]) == (4, [])
    text = both.run("doctor").out
    assert "no problems found" in text
    assert text.startswith(f"agent   claude  Claude Code {agent['version']}  {both.stage.binary} (by PATH)\n")
    assert "login: not checked" in text


def test_no_agent_is_3(cli: Any) -> None:
    done = cli.run("doctor", CLEW_CLAUDE_PATH="/nowhere/claude")

    assert done.code == 3
    assert "1 problem" in done.out
    assert "-> Install it" in done.out


def test_a_missing_agent_that_nobody_chose_is_a_note(cli: Any, tmp_path: Path) -> None:
    done = doctor_without_wheels(cli, tmp_path)

    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert ([agent["name"] for agent in found["agents"]], found["problems"]) == (["claude"], [])
    [note] = found["notes"]
    assert note.startswith("The Codex CLI is not on this machine")


def test_a_missing_agent_that_was_chosen_is_3(cli: Any, tmp_path: Path) -> None:
    done = doctor_without_wheels(cli, tmp_path, CLEW_AGENT="codex")

    assert done.returncode == 3
    [problem] = json.loads(done.stdout)["problems"]
    assert "openai-codex-cli-bin" in problem["fix"]


def test_a_wrong_path_is_a_problem_for_any_agent(cli: Any) -> None:
    done = cli.run("doctor", "--json", CLEW_CODEX_PATH="/nowhere/codex")

    assert done.code == 1
    assert done.json["problems"][0]["problem"].startswith("agents.codex.path is /nowhere/codex")


def doctor_without_wheels(cli: Any, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs doctor with the same packages, under a path where no adapter looks for the binary of a wheel."""
    (folder / "elsewhere").symlink_to(real_codex().parents[2])
    source = Path(clew.__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-S", "-m", "clew.cli", "doctor", "--json"],
        env={**cli.environ(**environ), "PYTHONPATH": f"{source}:{folder / 'elsewhere'}"},
        cwd=cli.stage.work,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_store_that_others_may_read_is_a_problem(cli: Any) -> None:
    cli.run("threads", "list")
    cli.stage.clew_home.chmod(0o755)

    done = cli.run("doctor", "--json")

    assert done.code == 1
    assert done.json["problems"][0]["fix"] == f"chmod 700 {cli.stage.clew_home}"


def test_a_broken_store_and_a_broken_config_are_reported_together(cli: Any) -> None:
    cli.stage.clew_home.mkdir(mode=0o700)
    (cli.stage.clew_home / "clew.db").write_bytes(b"this is no database " * 400)
    (cli.stage.clew_home / "clew.db").chmod(0o600)
    done = cli.run("doctor", "--json")
    assert done.code == 1
    assert len(done.json["problems"]) == 1
    assert done.json["agents"][0]["path"] == str(cli.stage.binary)

    (cli.stage.clew_home / "clew.toml").write_text("colour = 'red'")
    assert cli.run("doctor", "--json").json["agents"][0]["path"] == str(cli.stage.binary)
    done = cli.run("doctor")
    assert done.code == 1
    assert "colour" in done.out
    assert "Traceback" not in done.err


def test_a_broken_config_hides_neither_the_agent_nor_the_runs(cli: Any) -> None:
    cli.stage.clew_home.mkdir(mode=0o700)
    (cli.stage.clew_home / "clew.toml").write_text("colour = 'red'")

    done = cli.run("doctor", "--json")

    assert done.code == 1
    assert len(done.json["problems"]) == 1
    [agent, _] = done.json["agents"]
    assert (agent["path"], agent["resume"]) == (str(cli.stage.binary), True)
    assert done.json["runs"]["free_slots"] == 4


def test_a_wrong_binary_is_one_line(cli: Any, tmp_path: Any) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("#!/bin/sh\nprintf 'usage: wrong\\n  --a\\n\\033[31mrubbish\\n'\n")
    wrong.chmod(0o755)

    done = cli.run("doctor", CLEW_CLAUDE_PATH=str(wrong))

    assert done.code == 3
    assert "1 problem" in done.out
    assert "rubbish" not in done.out
    assert "\033" not in done.out


def test_an_agent_that_cannot_resume_is_a_problem(cli: Any, tmp_path: Any) -> None:
    from clew.testing import scripted_agent

    old = scripted_agent.install(tmp_path / "old", resume=False)
    done = cli.run("doctor", "--json", CLEW_CLAUDE_PATH=str(old))

    assert done.code == 1
    assert "cannot resume sessions" in done.json["problems"][0]["problem"]


@pytest.mark.rest
def test_slots_in_use_and_active_runs_are_counted(cli: Any) -> None:
    process = cli.start("ask", "!hang start")
    cli.api.wait_for_hanging(1)

    runs = cli.run("doctor", "--json").json["runs"]
    assert (runs["active"], runs["free_slots"]) == (1, 3)
    cli.api.release()
    process.communicate(timeout=TIMEOUT_S)


def test_config_shows_each_value_and_where_it_comes_from(cli: Any) -> None:
    (cli.stage.work / "clew.toml").write_text("timeout = '5m'\n")
    cli.stage.clew_home.mkdir(mode=0o700)
    own = cli.stage.clew_home / "clew.toml"
    own.write_text("permissions = 'edits'\n[agents.claude]\nmodel = 'm'\n")

    shown = cli.run("config", "show", "--json", CLEW_MAX_AGENTS="2").json

    assert (shown["permissions"]["value"], shown["permissions"]["source"]) == ("edits", str(own))
    assert (shown["timeout"]["value"], shown["timeout"]["source"]) == (300.0, str(cli.stage.work / "clew.toml"))
    assert (shown["max_agents"]["value"], shown["max_agents"]["source"]) == (2, "environment CLEW_MAX_AGENTS")
    assert shown["agents.claude.model"]["value"] == "m"
    assert shown["trust"] == {**shown["trust"], "value": "user", "source": "default"}
    assert str(own) in cli.run("config", "show").out
    assert cli.run("config", "path").out == f"{own}\n"


def test_config_path_says_where_a_file_would_be(cli: Any) -> None:
    done = cli.run("config", "path")

    assert done.out == f"{cli.stage.home}/.config/clew/clew.toml\n"
    assert "the file does not exist yet" in done.err


STOPS = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_stopped_writer_is_named_and_not_waited_for(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")
    path = cli.stage.clew_home / "clew.db"
    writer = subprocess.Popen([sys.executable, "-c", STOPS, str(path)])
    try:
        os.waitpid(writer.pid, os.WUNTRACED)
        done = cli.run("doctor", "--json")
    finally:
        writer.kill()
        writer.wait()
    [problem] = done.json["problems"]
    assert done.code == 1
    assert problem["problem"].startswith(f"No process can write to the database: it is held by process {writer.pid} (")
    assert problem["problem"].endswith("), which is stopped.")
    assert problem["fix"].startswith(f"Continue it (kill -CONT {writer.pid}), or end it (kill -KILL {writer.pid})")
    assert done.json["notes"] == []
    assert [agent["name"] for agent in done.json["agents"]] == ["claude", "codex"]


def test_a_database_without_its_main_file_is_not_created_again(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")
    path = cli.stage.clew_home / "clew.db"
    path.unlink()
    log = path.with_name("clew.db-wal")
    log.write_bytes(b"what was committed last")
    log.chmod(0o600)
    done = cli.run("doctor", "--json")
    [problem] = done.json["problems"]
    assert problem["problem"] == f"{path} is gone, but its log, {log}, is there."
    assert "stop every daemon and worker" in problem["fix"]
    assert (path.exists(), log.read_bytes()) == (False, b"what was committed last")


READS = "Clew's own folder (the database, the daemon's token)"


def test_readable_secrets_are_reported_as_a_risk(cli: Any) -> None:
    off = cli.run("doctor", CLEW_HIDE_HOME="false")
    assert off.code == 0 and "no problems found" in off.out
    assert f"note    risk: hide_home is off, so agents can read {READS}. Set hide_home = true.\n" in off.out
    everything = cli.run("doctor", CLEW_PERMISSIONS="all")
    assert (
        f"note    risk: with permissions all an agent runs commands as you, and can read {READS}. "
        "Set permissions to ask or edits, or run Clew's agents as another user.\n"
    ) in everything.out


@pytest.mark.rest
def test_permissions_all_of_hooks_and_threads_are_reported_as_a_risk(cli: Any) -> None:
    settings = cli.stage.home / ".config" / "clew" / "clew.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        '[hooks.agents.quiet]\npermissions = "all"\n[hooks.agents.boss]\npermissions = "all"\n[hooks.agents.safe]\n'
        '[[hooks.rules]]\nagent = "boss"\nevents = ["issue.opened"]\ncomment = true\n'
    )
    runs = f"runs commands as you, and can read {READS}"
    instead = "or run Clew's agents as another user."
    of_hooks = [
        f"risk: hooks.agents.quiet has permissions all, so it {runs}. "
        f"Set its permissions to edits or read-only, {instead}",
        f"risk: hooks.agents.boss has permissions all, so it {runs}; a rule with comment = true publishes what it "
        f"answers. Set its permissions to edits or read-only, {instead}",
    ]
    change = f"Change that with clew threads set NAME --permissions ask, {instead}"
    assert cli.run("doctor", "--json").json["notes"] == of_hooks
    cli.run("ask", "-t", "first", "--permissions", "all", "one")
    [*rest, one] = cli.run("doctor", "--json").json["notes"]
    assert (rest, one) == (of_hooks, f"risk: the thread first has permissions all: an agent there {runs}. {change}")
    for name in ("second", "third"):
        cli.run("ask", "-t", name, "--permissions", "all", "one")
    many = cli.run("doctor", "--json").json["notes"][-1]
    assert many == f"risk: 3 threads have permissions all (third, second, …): an agent there {runs}. {change}"


def test_a_missing_sandbox_is_reported(both: Any) -> None:
    """Runs in a user namespace that allows no further user namespaces."""
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec "
    command = f"{forbid}{sys.executable} -m clew.cli doctor --json"
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", command],
        env=both.stage.environ,
        cwd=both.stage.work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout)["notes"] == [
        "risk: codex's sandbox cannot be made here, so it runs no command but under permissions all, and reads "
        f"{READS} then. Allow unprivileged user namespaces, or run it as another user."
    ], done.stderr
