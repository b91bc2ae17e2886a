"""Unknown names in the environment and in clew.toml: one warning on stderr, and all listed by `clew doctor`."""

from __future__ import annotations

from typing import Any

from clew import config

MODLE = "'CLEW_MODLE' (did you mean CLEW_MODEL?)"


def test_a_command_warns_once_and_does_its_work(cli: Any) -> None:
    (cli.stage.work / "clew.toml").write_text("timeuot = '5m'\nenableResume = true\n")

    asked = cli.run("ask", "-t", "t", "hello", "--json", CLEW_MODLE="sesame")
    deleted = cli.run("threads", "delete", "t", "--yes", CLEW_MODLE="sesame")  # opens the store twice

    assert (asked.code, asked.json["thread"], deleted.code) == (0, "t", 0)
    for done in (asked, deleted):
        assert done.err.count(f"warning: environment: there is no variable {MODLE}.\n") == 1
        assert done.err.count("CLEW_MODLE") == done.err.count("timeuot") == 1
        assert "there is no setting 'timeuot' (did you mean timeout?).\n" in done.err
        assert "sesame" not in done.err + done.out


def test_config_show_warns_and_its_json_stays_valid(cli: Any) -> None:
    done = cli.run("config", "show", "--json", CLEW_MODLE="x", CLEW_CLAUDE_PATH="/old")

    assert (done.code, done.err) == (0, f"warning: environment: there is no variable {MODLE}.\n")
    shown = done.json["agents.claude.path"]
    assert (shown["value"], shown["source"]) == ("/old", "environment CLEW_CLAUDE_PATH")
    assert shown["variable"] == "CLEW_AGENTS_CLAUDE_PATH"


def test_config_show_prints_lists_as_clew_toml_has_them(cli: Any) -> None:
    done = cli.run("config", "show", CLEW_REMOTE_SIGNERS='ssh-ed25519 AAAA "me"', CLEW_SERVE_ROOTS="/a:/b")

    rows = {line.split()[0]: line for line in done.out.splitlines()}
    assert r' ["ssh-ed25519 AAAA \"me\""] ' in rows["remote.signers"]
    assert ' ["/a", "/b"] ' in rows["serve.roots"]


def test_a_warning_is_one_line_whatever_the_directory_is_called(cli: Any) -> None:
    hostile = cli.stage.work / "a\n\x1b[31mclew: all is well"
    hostile.mkdir()
    (hostile / "clew.toml").write_text('"\\u001b[2J\\nmodle" = 1\n')

    done = cli.run("threads", "list", "--json", cwd=hostile)

    [line] = done.err.splitlines()
    assert line.startswith("warning: ") and line.endswith(" (did you mean model?).")
    assert "\x1b" not in line


def test_the_shells_completion_is_silent(cli: Any) -> None:
    cli.run("threads", "list")
    words = {"COMP_WORDS": "clew threads show ", "COMP_CWORD": "3"}

    assert cli.run(_CLEW_COMPLETE="bash_complete", CLEW_MODLE="x", **words).err == ""


def test_doctor_lists_all_of_them(cli: Any) -> None:
    cli.stage.clew_home.mkdir(mode=0o700)
    own = cli.stage.clew_home / "clew.toml"
    own.write_text("[hooks]\nskils = 'x'\n")
    (cli.stage.work / "clew.toml").write_text("timeuot = '5m'\n")

    done = cli.run("doctor", "--json", CLEW_MODLE="x")

    assert (done.code, done.err) == (1, "")
    theirs, variable, hooks = (each["problem"] for each in done.json["problems"])
    assert theirs.endswith("work/clew.toml: there is no setting 'timeuot' (did you mean timeout?).")
    assert variable == f"environment: there is no variable {MODLE}."
    assert hooks.startswith(f"{own}: hooks has no 'skils' (did you mean skills?)")

    own.write_text("modle = 'm'\ncolour = 'red'\n")
    text = cli.run("doctor", CLEW_MODLE="x").out
    assert f"{own}: there is no setting 'modle' (did you mean model?), nor 'colour'." in text
    assert MODLE in text
    assert "'timeuot' (did you mean timeout?)" in text
    assert "3 problems" in text, "and what is wrong with the file is said once"


def test_doctor_knows_the_old_name_of_a_variable_even_if_the_settings_are_wrong(cli: Any) -> None:
    cli.stage.clew_home.mkdir(mode=0o700)
    (cli.stage.clew_home / "clew.toml").write_text("colour = 'red'")

    for name in ("CLEW_CLAUDE_PATH", "CLEW_AGENTS_CLAUDE_PATH"):
        assert cli.run("doctor", **{name: "/nowhere/claude"}).code == 3


def test_no_warning_about_the_variables_that_an_agents_tools_get(both: Any) -> None:
    asked = both.run("ask", "--permissions", "all", '!tool Bash {"command": "env -0 > seen"}')

    assert asked.code == 0, asked.err
    seen = (both.stage.work / "seen").read_bytes().decode().split("\0")
    environ = dict(entry.split("=", 1) for entry in seen if "=" in entry)
    assert "CLEW_ATTEMPT" in environ
    assert config.load(environ).warnings == ()
