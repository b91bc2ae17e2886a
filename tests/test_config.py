"""Settings: where each comes from, what a repository may not set, and one clear line for every mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew import config
from clew.errors import ConfigError

Load = Callable[..., config.Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads with a user's file, a project's file, an environment and flags; all of them optional."""
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
    ("agents.claude.model", "CLEW_CLAUDE_MODEL", ['"u"', '"p"'], "e", "f", ["u", "p", "e", "f"]),
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

    def test_a_flag_that_was_not_given_does_not_count(self, load: Load) -> None:
        assert load(environ={"CLEW_MODEL": "e"}, model=None).of("model") == "e"

    def test_tables_and_dotted_keys_are_the_same(self, load: Load) -> None:
        assert load(user='[agents.claude]\npath = "/x"').of("agents.claude.path") == "/x"
        assert load(user='agents.claude.path = "/y"').of("agents.claude.path") == "/y"

    def test_every_setting_has_its_own_variable(self) -> None:
        variables = [setting.variable for setting in config.TABLE]
        assert len(set(variables)) == len(variables)
        assert config.BY_NAME["agents.claude.path"].variable == "CLEW_CLAUDE_PATH"

    def test_every_default_is_a_value_that_its_own_parser_takes(self) -> None:
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

    def test_a_users_file_in_the_work_dir_is_the_users(self, load: Load, tmp_path: Path) -> None:
        path = tmp_path / "work" / "clew.toml"
        path.write_text('permissions = "all"')
        assert load(environ={"CLEW_CONFIG": str(path)}).of("permissions") == "all"


UNSAFE = {
    "permissions": '"all"',
    "trust": '"project"',
    "max_agents": "400",
    "jobs.most_at_once": "4000",
    "store": '"postgresql://evil.example/x"',
    "agents.claude.path": '"./evil"',
    "agents.codex.path": '"./evil"',
    "serve.host": '"0.0.0.0"',
    "serve.port": "80",
    "serve.roots": '["/"]',
    "serve.work": "1000",
    "retention.threads": '"1s"',
    "retention.archives": '"1s"',
    "remote.url": '"s3://evil/x"',
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

    @pytest.mark.parametrize("text", ["modle = 1", "timeout = 'soon'", "= ="])
    def test_a_projects_mistakes_stop_nobody(self, load: Load, text: str) -> None:
        settings = load(project=text)
        assert "work/clew.toml" in settings.ignored[0]
        assert settings.of("timeout") == 1800.0

    @pytest.mark.parametrize("name", UNSAFE)
    def test_the_user_can(self, load: Load, name: str) -> None:
        assert load(user=f"{name} = {UNSAFE[name]}")[name].source.endswith("clew.toml")


class TestMistakes:
    def test_an_unknown_key_is_named_with_the_known_ones(self, load: Load) -> None:
        error = refusal(load, user="modle = 1")
        assert "'modle'" in error.message
        assert "model" in (error.hint or "")

    @pytest.mark.parametrize("text", ["= =", "model", 'model = "a"\nmodel = "b"', '"'])
    def test_a_file_that_is_no_toml_is_named(self, load: Load, text: str) -> None:
        assert "clew.toml" in refusal(load, user=text).message

    def test_a_file_that_is_no_text_is_named(self, load: Load, tmp_path: Path) -> None:
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

    def test_a_bad_flag_is_called_one(self, load: Load) -> None:
        assert "(flag)" in refusal(load, timeout="soon").message

    def test_an_agent_without_a_name_is_refused(self, load: Load) -> None:
        refusal(load, user='agent = ""')


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
    def test_they_are_read(self, value: Any, seconds: float | None) -> None:
        assert config.duration(value) == seconds

    @pytest.mark.parametrize(
        "value", ["soon", "1y", "h", "-1s", "1h-30m", "0", "0s", "1e3", "1 2", "99999999999w", True, []]
    )
    def test_nonsense_is_refused(self, value: Any) -> None:
        with pytest.raises(ValueError, match="duration"):
            config.duration(value)
