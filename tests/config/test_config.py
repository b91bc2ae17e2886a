"""Settings: where each comes from, what a repository may not set, and the one-line errors for mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew import config
from clew.config.hooks import SECRET, TOKEN
from clew.core.hooks.hook import Forge
from clew.engine.process.family import MARK
from clew.errors import ConfigError

Load = Callable[..., config.Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads the settings from a user's file, a project's file, an environment and flags, each of which is optional."""
    work = tmp_path / "work"
    work.mkdir()

    def run(
        user: str | None = None,
        project: str | None = None,
        environ: dict[str, str] | None = None,
        **flags: Any,
    ) -> config.Settings:
        if user is not None:
            (tmp_path / ".config" / "clew").mkdir(parents=True, exist_ok=True)
            (tmp_path / ".config" / "clew" / "clew.toml").write_text(user)
        if project is not None:
            (work / "clew.toml").write_text(project)
        return config.load({"HOME": str(tmp_path), **(environ or {})}, work, flags)

    return run


def refusal(load: Load, **places: Any) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        load(**places)
    assert "\n" not in refused.value.message
    assert refused.value.exit_code == 2
    return refused.value


# A setting of each type that a project may set: its key, and values of user, project, environment and flag.
EACH_TYPE = [
    ("model", "CLEW_MODEL", ['"u"', '"p"'], "e", "f", ["u", "p", "e", "f"]),
    ("visibility", "CLEW_VISIBILITY", ['"own"', '"shared"'], "own", "shared", ["own", "shared", "own", "shared"]),
    ("enable_resume", "CLEW_ENABLE_RESUME", ["false", "true"], "0", True, [False, True, False, True]),
    ("timeout", "CLEW_TIMEOUT", ["10", '"2m"'], "3h", "none", [10.0, 120.0, 10800.0, None]),
    ("max_resumes", "CLEW_MAX_RESUMES", ["1", "2"], "3", 4, [1, 2, 3, 4]),
    ("transcript_limit", "CLEW_TRANSCRIPT_LIMIT", ["1", "2"], "3", 4, [1, 2, 3, 4]),
    ("agents.claude.model", "CLEW_AGENTS_CLAUDE_MODEL", ['"u"', '"p"'], "e", "f", ["u", "p", "e", "f"]),
]


class TestPrecedence:
    @pytest.mark.parametrize(("name", "variable", "files", "environ", "flag", "values"), EACH_TYPE)
    def test_flags_over_environment_over_project_over_user_over_default(
        self, load: Load, name: str, variable: str, files: list[str], environ: str, flag: Any, values: list[Any]
    ) -> None:
        assert load()[name] == config.Value(config.BY_NAME[name].default, "default")
        user = load(user=f"{name} = {files[0]}")[name]
        assert (user.value, user.source.endswith(".config/clew/clew.toml")) == (values[0], True)
        project = load(project=f"{name} = {files[1]}")[name]
        assert (project.value, project.source.endswith("work/clew.toml")) == (values[1], True)
        assert load(environ={variable: environ})[name] == config.Value(values[2], f"environment {variable}")
        everywhere = load(environ={variable: environ}, **{name: flag})[name]
        assert everywhere == config.Value(values[3], "flag")

    def test_a_flag_that_is_none_has_no_effect(self, load: Load) -> None:
        assert load(environ={"CLEW_MODEL": "e"}, model=None).of("model") == "e"

    def test_tables_and_dotted_keys_are_the_same(self, load: Load) -> None:
        assert load(user='[agents.claude]\npath = "/x"').of("agents.claude.path") == "/x"
        assert load(user='agents.claude.path = "/y"').of("agents.claude.path") == "/y"

    def test_every_settings_variable_follows_one_rule(self) -> None:
        for setting in config.TABLE:
            assert setting.variable == "CLEW_" + setting.name.upper().replace(".", "_")
        assert config.BY_NAME["agents.claude.path"].variable == "CLEW_AGENTS_CLAUDE_PATH"

    @pytest.mark.parametrize("agent", ["claude", "codex"])
    @pytest.mark.parametrize("key", ["path", "model"])
    def test_the_old_name_of_a_variable_works_and_the_new_one_takes_precedence(
        self, load: Load, agent: str, key: str
    ) -> None:
        name, old = f"agents.{agent}.{key}", f"CLEW_{agent}_{key}".upper()
        new = config.BY_NAME[name].variable
        assert load(environ={old: "o"})[name] == config.Value("o", f"environment {old}")
        assert load(environ={old: "o", new: "n"})[name] == config.Value("n", f"environment {new}")
        assert load(environ={old: "o", new: " "})[name] == config.Value("o", f"environment {old}")
        assert load(environ={old: "o", new: "n"}).warnings == ()

    def test_every_default_is_accepted_by_its_own_parser(self) -> None:
        for setting in config.TABLE:
            assert setting.default is None or setting.parse(setting.default) == setting.default


class TestPlaces:
    def test_the_users_file_may_be_named(self, load: Load, tmp_path: Path) -> None:
        (tmp_path / "mine.toml").write_text('model = "named"')
        named = {"CLEW_CONFIG": str(tmp_path / "mine.toml")}
        assert load(user='model = "u"', environ=named).of("model") == "named"

    def test_a_named_file_that_is_missing_is_an_error(self, load: Load) -> None:
        assert "/nowhere.toml" in refusal(load, environ={"CLEW_CONFIG": "/nowhere.toml"}).message

    def test_clew_home_comes_before_the_platforms_folder(self, load: Load, tmp_path: Path) -> None:
        home = tmp_path / "clew-home"
        home.mkdir()
        (home / "clew.toml").write_text('model = "home"')
        assert load(user='model = "u"', environ={"CLEW_HOME": str(home)}).of("model") == "home"

    @pytest.mark.parametrize(
        ("environ", "place"),
        [
            ({"HOME": "/h"}, "/h/.local/state/clew"),
            ({"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s/clew"),
            ({"HOME": "/h", "XDG_STATE_HOME": "/s", "CLEW_HOME": "/c"}, "/c"),
        ],
    )
    def test_where_the_store_is(self, environ: dict[str, str], place: str) -> None:
        assert config.home(environ) == Path(place)

    def test_the_users_file_in_the_work_dir_is_read_as_the_users(self, load: Load, tmp_path: Path) -> None:
        path = tmp_path / "work" / "clew.toml"
        path.write_text('permissions = "all"')
        assert load(environ={"CLEW_CONFIG": str(path)}).of("permissions") == "all"


UNSAFE = {
    "agent": '"codex"',
    "permissions": '"all"',
    "trust": '"project"',
    "hide_home": "false",
    "plain": "true",
    "resident": '"off"',
    "resident_idle": '"1h"',
    "max_agents": "400",
    "warm.idle": '"30d"',
    "warm.max": "100",
    "warm.memory": '"900GiB"',
    "warm.keys": "true",
    "warm.ahead": "false",
    "jobs.most_at_once": "4000",
    "store": '"postgresql://evil.example/x"',
    "agents.claude.path": '"./evil"',
    "agents.codex.path": '"./evil"',
    "serve.host": '"0.0.0.0"',
    "serve.port": "80",
    "serve.roots": '["/"]',
    "serve.work": "1000",
    "serve.worker": "true",
    "retention.threads": '"1s"',
    "retention.archives": '"1s"',
    "remote.url": '"s3://evil/x"',
    "remote.sign": '"/evil/key"',
    "remote.signers": '["ssh-ed25519 AAAA evil"]',
}


class TestProjects:
    def test_what_a_project_may_not_set_is_pinned(self) -> None:
        assert {setting.name for setting in config.TABLE if not setting.in_project} == set(UNSAFE)

    @pytest.mark.parametrize("name", UNSAFE)
    def test_a_project_cannot_run_code_or_widen_permissions(self, load: Load, name: str) -> None:
        settings = load(project=f'model = "m"\n{name} = {UNSAFE[name]}' if "." not in name else f"{name} = './x'")
        assert settings[name].source == "default"
        [said] = settings.ignored
        assert name in said
        assert "work/clew.toml" in said

    @pytest.mark.parametrize("name", ["model", "agents.claude.model", "agents.codex.model"])
    def test_a_model_that_looks_like_an_option_is_refused_in_every_place(self, load: Load, name: str) -> None:
        wrong = "is not a model: a name is printable and does not begin with a dash."
        settings = load(project=f'{name} = "--dangerous"')
        [said] = settings.ignored
        assert said.startswith(f"{name} = '--dangerous' (") and said.endswith(f"work/clew.toml) {wrong}")
        assert settings.of(name) is None
        variable = config.BY_NAME[name].variable
        with pytest.raises(ConfigError) as error:
            load(environ={variable: "-x"})
        assert error.value.message == f"{name} = '-x' (environment {variable}) {wrong}"
        with pytest.raises(ConfigError) as error:
            load(user=f'{name} = "-x"')
        assert error.value.message.endswith(f"clew.toml) {wrong}")

    @pytest.mark.parametrize("text", ["modle = 1", "timeout = 'soon'", "= ="])
    def test_mistakes_in_a_projects_file_do_not_stop_a_command(self, load: Load, text: str) -> None:
        settings = load(project=text)
        assert "work/clew.toml" in settings.ignored[0]
        assert settings.of("timeout") == 1800.0

    def test_unknown_keys_are_named_with_the_nearest_in_one_line(self, load: Load) -> None:
        settings = load(project="modle = 'm'\nmaxAge = '1h'\nzzz = 1")
        [said] = settings.ignored
        assert "work/clew.toml: there is no setting 'modle' (did you mean model?)," in said
        assert said.endswith(" nor 'maxAge' (did you mean max_age?), nor 'zzz'.")
        assert settings.of("model") is None

    def test_a_hostile_file_cannot_flood_or_drive_the_terminal(self, load: Load, tmp_path: Path) -> None:
        keys = "\n".join(f'"{number} \\u001b[31m\\n\\u202e{"x" * 5000}" = 1' for number in range(200))
        [said] = load(project=keys).ignored
        assert said.endswith(", nor 195 more.")
        assert said.isprintable()
        assert len(said) < 600 + len(str(tmp_path))

    @pytest.mark.parametrize(
        "text", ["x = " + "9" * 5000, "timeout = 0x" + "f" * 5000, "max_resumes = 0x" + "f" * 5000]
    )
    def test_a_very_long_number_does_not_stop_a_command(self, load: Load, text: str) -> None:
        settings = load(project=f"{text}\n")
        [said] = settings.ignored
        assert len(said) < 1000
        assert settings.of("timeout") == 1800.0

    def test_hooks_are_refused_once_and_by_their_name(self, load: Load) -> None:
        [said] = load(project="[hooks.agents.boss]\nmodel = 'm'\nagent = 'codex'\n").ignored
        assert "clew.toml: hooks cannot be set by a work directory" in said

    @pytest.mark.parametrize("name", UNSAFE)
    def test_the_users_own_file_can_set_what_a_project_cannot(self, load: Load, name: str) -> None:
        assert load(user=f"{name} = {UNSAFE[name]}")[name].source.endswith("clew.toml")


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "key", "nearest"),
        [
            ("modle = 1", "modle", "model"),
            ("permisions = 'read-only'", "permisions", "permissions"),
            ("idleTimeout = 5", "idleTimeout", "idle_timeout"),
            ("[serve]\nprot = 1", "serve.prot", "serve.port"),
            ("[sevre]\nport = 1", "sevre.port", "serve.port"),
            ("[reviews]\nenableResume = true", "reviews.enableResume", "enable_resume"),
            ("[claude]\npath = '/x'", "claude.path", "agents.claude.path"),
            ("[remote]\nulr = 's3://x'", "remote.ulr", "remote.url"),
            ("[hoks.agents.boss]\nmodel = 'm'", "hoks.agents.boss.model", "hooks"),
            ("[retentoin]", "retentoin", "retention"),
            ("[model]\nname = 'm'", "model.name", "model"),
        ],
    )
    def test_an_unknown_key_is_named_with_the_nearest_known_one(
        self, load: Load, text: str, key: str, nearest: str | None
    ) -> None:
        message = refusal(load, user=text).message
        meant = f" (did you mean {nearest}?)" if nearest else ""
        assert message.endswith(f"clew.toml: there is no setting '{key}'{meant}."), message

    def test_an_empty_table_of_settings_is_accepted(self, load: Load) -> None:
        assert load(user="[agents]\n[agents.claude]\n[serve]\n[hooks]\n").of("serve.port") == 7421

    def test_all_unknown_keys_are_named_before_any_value_is_checked(self, load: Load) -> None:
        message = refusal(load, user="timeout = 'soon'\nmodle = 1\ncolour = 2").message
        assert message.endswith("'modle' (did you mean model?), nor 'colour'.")

    def test_an_unknown_flag_is_named_with_the_nearest_too(self, load: Load) -> None:
        assert "'modle' (did you mean model?)" in refusal(load, modle="x").message

    @pytest.mark.parametrize("text", ["= =", "model", 'model = "a"\nmodel = "b"', '"'])
    def test_a_file_that_is_not_toml_is_named(self, load: Load, text: str) -> None:
        assert "clew.toml" in refusal(load, user=text).message

    def test_a_file_that_is_not_text_is_named(self, load: Load, tmp_path: Path) -> None:
        load(user="")
        (tmp_path / ".config" / "clew" / "clew.toml").write_bytes(b"\xff\xfe\0")
        assert "clew.toml" in refusal(load).message

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("model", "7"),
            ("model", "[1]"),
            ("visibility", '"everyone"'),
            ("permissions", '"yolo"'),
            ("enable_resume", '"perhaps"'),
            ("enable_resume", "2"),
            ("timeout", '"soon"'),
            ("timeout", "true"),
            ("timeout", "0"),
            ("timeout", "-5"),
            ("timeout", "inf"),
            ("timeout", "nan"),
            ("max_resumes", "0"),
            ("max_resumes", "1.5"),
            ("max_resumes", "true"),
            ("max_resumes", '"many"'),
            ("max_agents", '"none"'),
            ("max_agents", "-1"),
            ("timeout", "[[1]]"),
            ("timeout", '"""\n\n"1\n"""'),
        ],
    )
    def test_a_bad_value_gets_one_line_that_names_setting_value_and_place(
        self, load: Load, name: str, value: str
    ) -> None:
        error = refusal(load, user=f"{name} = {value}")
        assert error.message.startswith(f"{name} = ")
        assert "clew.toml" in error.message

    def test_a_bad_variable_is_named(self, load: Load) -> None:
        assert "CLEW_TIMEOUT" in refusal(load, environ={"CLEW_TIMEOUT": "soon"}).message

    def test_a_bad_flag_is_named_as_a_flag(self, load: Load) -> None:
        assert "(flag)" in refusal(load, timeout="soon").message

    def test_an_agent_without_a_name_is_refused(self, load: Load) -> None:
        refusal(load, user='agent = ""')


class TestVariables:
    def test_an_unknown_variable_is_named_with_the_nearest_but_without_its_value(self, load: Load) -> None:
        settings = load(environ={"CLEW_MODLE": "x", "CLEW_GITHUB_TOKN": "sesame", "CLEW_CLAUDE_PTH": "/c"})
        [said] = settings.warnings
        assert said == (
            "environment: there is no variable 'CLEW_CLAUDE_PTH' (did you mean CLEW_AGENTS_CLAUDE_PATH?),"
            " nor 'CLEW_GITHUB_TOKN' (did you mean CLEW_GITHUB_TOKEN?), nor 'CLEW_MODLE' (did you mean CLEW_MODEL?)."
        )
        assert settings.ignored == ()

    def test_a_variable_that_resembles_no_other_is_named_too(self, load: Load) -> None:
        assert load(environ={"CLEW_ZZZ": "1"}).warnings == ("environment: there is no variable 'CLEW_ZZZ'.",)

    def test_empty_variables_and_those_of_other_programs_are_ignored(self, load: Load) -> None:
        assert load(environ={"CLEW_MODLE": " ", "_CLEW_COMPLETE": "bash_source", "CLEWS_X": "1"}).warnings == ()

    def test_every_variable_that_the_code_names_is_known(self) -> None:
        folder = Path(config.__file__).parents[1]
        code = "".join(path.read_text() for path in folder.rglob("*.py"))
        of_forges = (pattern.format(forge.value.upper()) for forge in Forge for pattern in (SECRET, TOKEN))
        named = {*re.findall(r"""["'](CLEW_[A-Z0-9_]+)["']""", code), *of_forges, MARK}
        assert "CLEW_ATTEMPT" in named and "CLEW_SCRIPT_LOG" in named
        assert named - {*config.VARIABLES, *config.OLD_VARIABLES} == set()


class TestEnableResume:
    """The alias `enableResume`."""

    def test_it_is_an_alias_in_both_files_and_for_a_keyword(self, load: Load) -> None:
        assert load(user="enableResume = false").of("enable_resume") is False
        settings = load(user="enable_resume = true", project="enableResume = false")
        assert (settings.of("enable_resume"), settings.ignored) == (False, ())
        assert settings["enable_resume"].source.endswith("work/clew.toml")
        assert load(enableResume=True)["enable_resume"] == config.Value(True, "flag")
        assert "enableResume" not in settings

    def test_a_bad_value_is_refused_under_its_name(self, load: Load) -> None:
        assert refusal(load, user="enableResume = 'perhaps'").message.startswith("enable_resume = 'perhaps' ")

    def test_both_names_may_have_the_same_value(self, load: Load) -> None:
        assert load(user="enable_resume = false\nenableResume = 'no'").of("enable_resume") is False

    def test_both_names_with_different_values_are_an_error(self, load: Load) -> None:
        error = refusal(load, user="enable_resume = false\nenableResume = true")
        assert "clew.toml: enable_resume is given twice, with different values." in error.message
        assert "enableResume" in (error.hint or "")
        refusal(load, user="", enable_resume=True, enableResume=False)

    def test_in_a_project_conflicting_names_have_no_effect(self, load: Load) -> None:
        settings = load(project="enable_resume = false\nenableResume = true")
        assert settings["enable_resume"] == config.Value(True, "default")
        [said] = settings.ignored
        assert "enable_resume is given twice" in said


class TestDurations:
    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            (90, 90.0),
            (0.5, 0.5),
            ("90", 90.0),
            ("90s", 90.0),
            ("1.5h", 5400.0),
            ("30m", 1800.0),
            ("1h30m", 5400.0),
            (" 1h 30m ", 5400.0),
            ("7D", 604800.0),
            ("2w", 1209600.0),
            ("none", None),
            ("OFF", None),
            ("never", None),
        ],
    )
    def test_durations_are_parsed(self, value: Any, seconds: float | None) -> None:
        assert config.duration(value) == seconds

    @pytest.mark.parametrize(
        "value", ["soon", "1y", "h", "-1s", "1h-30m", "0", "0s", "1e3", "1 2", "99999999999w", True, []]
    )
    def test_invalid_durations_are_refused(self, value: Any) -> None:
        with pytest.raises(ValueError, match="duration"):
            config.duration(value)
