"""Settings. Flags override CLEW_* variables, these override clew.toml, and it overrides the defaults.

One table defines all settings: the environment variables, the keys of the file, what `clew config show` prints and the
reference in docs/cli.md. The user's own file may set everything. A `clew.toml` in the work directory comes from the
author of the repository, so it may only set what can neither run code nor widen permissions.

For an unknown name, the message suggests the nearest known one. In the user's file an unknown name is an error, because
a misspelt `permissions` must not widen them; in a work directory's file and in the environment it is a warning, which
the surfaces print.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clew.core.durations import DAY_S, HOUR_S
from clew.core.record import Record
from clew.core.thread import is_safe_argument
from clew.errors import ConfigError
from clew.resident import location


class Setting(Record):
    name: str  # the key in clew.toml; dots separate tables
    parse: Callable[[Any], Any]
    default: Any
    help: str
    in_project: bool = False  # may a work directory's clew.toml set it?
    secret: bool = False  # it may contain a password, which is not shown
    alias: str | None = None  # another key in clew.toml
    old_variable: str | None = None  # an old name of the variable, which still works; the new one takes precedence

    @property
    def variable(self) -> str:
        """`agents.claude.path` is CLEW_AGENTS_CLAUDE_PATH."""
        return "CLEW_" + self.name.replace(".", "_").upper()

    def variable_in(self, environ: Mapping[str, str]) -> str | None:
        """The name of the variable that is set. An empty variable does not count: it must not remove a limit."""
        for name in (self.variable, self.old_variable):
            if name is not None and environ.get(name, "").strip():
                return name
        return None

    def shown(self, value: Any) -> Any:
        """The value for display: an address without its password."""
        if not (self.secret and isinstance(value, str)):
            return value
        return re.sub(r"(?i)(password=)[^&]*", r"\1…", re.sub(r"(://[^/@:]*):[^@]*@", r"\1:…@", value))


class Value(Record):
    value: Any
    source: str  # "default", "environment CLEW_…", the file's path, or "flag"


class Settings(dict[str, Value]):
    """Every setting by name, with its value and source."""

    ignored: tuple[str, ...] = ()  # what a work directory's file could not set, and why
    unknown: tuple[str, ...] = ()  # the variables CLEW_… that Clew does not know

    @property
    def warnings(self) -> tuple[str, ...]:
        """Messages about settings that have no effect. Surfaces print them once; the library does not."""
        return (*self.ignored, *self.unknown)

    def of(self, name: str) -> Any:
        return self[name].value

    def model_of(self, agent: str) -> str | None:
        """The setting `model` if that agent is the setting `agent`: it does not apply to other agents."""
        found: str | None = self.of("model") if agent == self.of("agent") else None
        return found

    def pair_model_of(self, part: str, agent: str) -> str | None:
        """The setting `pair.PART_model`, or `model`. As `model`, it does not apply to other agents."""
        named: str | None = self.of(f"pair.{part}_model") if agent == self.of("agent") else None
        return named or self.model_of(agent)


MAX_ROUNDS = 10_000  # of a pair
_UNITS = {"s": 1.0, "m": 60.0, "h": HOUR_S, "d": DAY_S, "w": 7 * DAY_S}
GIB = 1 << 30
_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": GIB}
_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?|\d{1,15})\s*((?:[kmg]i?)?b|)", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")


def duration(value: Any) -> float | None:
    """Seconds from 90, "90s", "30m", "1h30m" or "7d"; None for "none" or "off", which mean no limit."""
    if isinstance(value, str) and value.strip().lower() in ("none", "off", "never", ""):
        return None
    try:
        return span(value)
    except ValueError as error:
        raise ValueError(f"{error}: write 90s, 30m, 2h, 7d, or none") from error


def span(value: Any) -> float:
    """Like `duration`, but there must be a limit."""
    if isinstance(value, bool):
        raise ValueError("is not a duration")
    if isinstance(value, int | float):
        number = float(value)
    else:
        text = str(value).strip().lower()
        if not re.fullmatch(r"\d+(?:\.\d+)?|(?:\d+(?:\.\d+)?\s*[smhdw]\s*)+", text):
            raise ValueError("is not a duration")
        number = sum(float(amount) * _UNITS[unit or "s"] for amount, unit in _DURATION.findall(text))
    if not 0 < number < 1e9:
        raise ValueError("is too long for a duration" if number > 0 else "is not a duration above zero")
    return number


def as_duration(seconds: float) -> str:
    """The duration as text: 30d, 1h30m, 0.5s."""
    words = ""
    for unit in "dhm":
        count, seconds = divmod(seconds, _UNITS[unit])
        words += f"{count:.0f}{unit}" if count else ""
    return words + (f"{seconds:g}s" if seconds or not words else "")


def boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off"):
        return False
    raise ValueError("is neither true nor false")


def count(value: Any) -> int | None:
    if str(value).strip().lower() in ("none", "off"):
        return None
    return at_least_one(value)


def at_least_one(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,12}", str(value).strip()) or int(value) < 1:
        raise ValueError("is not a whole number above zero")
    return int(value)


def rounds(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,5}", str(value).strip()) or not 1 <= int(value) <= MAX_ROUNDS:
        raise ValueError(f"is not a whole number from 1 to {MAX_ROUNDS:,}")
    return int(value)


def up_to_a_thousand(value: Any) -> int | None:
    if str(value).strip().lower() == "none":
        return None
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,4}", str(value).strip()) or int(value) > 1000:
        raise ValueError("is not a whole number up to 1000, 0 for none of it")
    return int(value)


def up_to_a_hundred(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,3}", str(value).strip()) or int(value) > 100:
        raise ValueError("is not a whole number up to 100")
    return int(value)


class Size(int):
    """A number of bytes. As text it is written as users write it: 2GiB, 500MB, 1000B."""

    def __str__(self) -> str:
        units = ((factor, unit) for unit, factor in _SIZES.items() if unit.endswith("b") and not self % factor)
        factor, unit = max(units)
        return f"{int(self) // factor}{unit.upper().replace('I', 'i')}"


def size(value: Any) -> Size:
    """From 2147483648, "500MB" or "2GiB"."""
    found = None if isinstance(value, bool) else _SIZE.fullmatch(str(value).strip())
    if found is None:
        raise ValueError("is not a size: write 500MB, 2GiB, or a number of bytes")
    return Size(float(found[1]) * _SIZES[found[2].lower()])


def word(value: Any) -> str | None:
    if not isinstance(value, str):
        raise ValueError("is not a text")
    return value.strip() or None


def model(value: Any) -> str | None:
    """A model is one argument of an agent's command line, and must not look like an option."""
    found = word(value)
    if found is not None and not is_safe_argument(found):
        raise ValueError("is not a model: a name is printable and does not begin with a dash")
    return found


def name(value: Any) -> str:
    found = word(value)
    if found is None:
        raise ValueError("is empty")
    return found


def port(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,5}", str(value).strip()) or int(value) > 65_535:
        raise ValueError("is not a port: write a number up to 65535, or 0 for any free one")
    return int(value)


def folders(value: Any) -> tuple[str, ...] | None:
    """A list, or one text with the platform's separator between the paths, as in PATH."""
    return _texts(value.split(os.pathsep) if isinstance(value, str) else value, "folders")


def signers(value: Any) -> tuple[str, ...] | None:
    """A list of public keys or files; one text is a list of one."""
    return _texts([value] if isinstance(value, str) else value, "keys or files")


def _texts(parts: Any, what: str) -> tuple[str, ...] | None:
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"is not a list of {what}")
    return tuple(part.strip() for part in parts if part.strip()) or None


def choice(*options: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in options:
            raise ValueError(f"is not one of {', '.join(options)}")
        return str(value)

    return parse


TABLE: tuple[Setting, ...] = (
    Setting("agent", name, "claude", "the agent of new threads"),
    Setting("model", model, None, "the model of a new thread; none: the agent's own default", in_project=True),
    Setting("permissions", choice("ask", "edits", "read-only", "all"), "ask", "what the agent may do without asking"),
    Setting("trust", choice("user", "project"), "user", "whose agent settings, hooks and MCP servers may load"),
    Setting("rules", boolean, True, "show agents the project's rules: CLAUDE.md, AGENTS.md", in_project=True),
    Setting(
        "hide_home", boolean, True, "hide Clew's own folder (database, token) from agents' tools, if the agent can"
    ),
    Setting("visibility", choice("shared", "own"), "shared", "what agents see of each other's turns", in_project=True),
    Setting("enable_resume", boolean, True, "whether sessions are resumed", in_project=True, alias="enableResume"),
    Setting(
        "rewind", boolean, True, "after an edit, continue from before it in a copy of the session", in_project=True
    ),
    Setting("follow_moves", boolean, True, "bring in turns that were made outside Clew in a session", in_project=True),
    Setting(
        "model_switch",
        choice("copy", "transcript"),
        "transcript",
        "a first turn on another model gets a copy of the session, or the transcript",
        in_project=True,
    ),
    Setting("max_age", duration, None, "a session older than this is not resumed", in_project=True),
    Setting("max_resumes", count, None, "a session that was resumed this often is not resumed again", in_project=True),
    Setting("timeout", duration, 1800.0, "time limit of a run; waiting for a person does not count", in_project=True),
    Setting("idle_timeout", duration, 900.0, "a run whose agent is silent for this time is stopped", in_project=True),
    Setting("jobs.most_at_once", count, None, "jobs running at once on all machines; each worker has its limit too"),
    Setting("reviews.max_age", duration, DAY_S, "a review's session older than this is not resumed", in_project=True),
    Setting("pair.rounds", rounds, 10, "the most rounds of a new pair", in_project=True),
    Setting("pair.instructor_model", model, None, "its model that plans; none: the setting model", in_project=True),
    Setting("pair.worker_model", model, None, "its model that does the work; none: the setting model", in_project=True),
    Setting("pair.thinking", boolean, False, "its instructor reasons at length", in_project=True),
    Setting("pair.auto_save", boolean, True, "state files of pairs are written", in_project=True),
    Setting("store", word, None, "the database, postgresql://…; none: a file in CLEW_HOME", secret=True),
    Setting(
        "resident",
        choice("on request", "auto", "off"),
        "on request",
        "whether a running daemon carries out ask, chat, review and pair; auto: the first `clew ask` starts one",
    ),
    Setting(
        "resident_idle", duration, DAY_S, "a daemon of `clew up` ends when it was unused for this time; none: never"
    ),
    Setting("plain", boolean, False, "print answers on a terminal without rendering their Markdown"),
    Setting("max_agents", at_least_one, 4, "agents running at once on this machine (about 300 MB each)"),
    Setting("warm.idle", span, 600.0, "an agent that is kept after its turn ends when it was not used for this time"),
    Setting("warm.max", up_to_a_hundred, 2, "agents that a process of Clew keeps at once (about 300 MB each); 0: none"),
    Setting(
        "warm.memory", size, Size(2 * GIB), "the memory that they may hold together; the least recently used ends first"
    ),
    Setting("warm.keys", boolean, False, "keep also those that were started with a credential in their environment"),
    Setting("warm.ahead", boolean, True, "start an agent when its thread is opened or a prompt is typed, not after"),
    Setting("transcript_limit", at_least_one, 400_000, "characters of a transcript before it is cut", in_project=True),
    Setting("agents.claude.path", word, None, "the Claude CLI; none: found by Clew", old_variable="CLEW_CLAUDE_PATH"),
    Setting(
        "agents.claude.model",
        model,
        None,
        "the Claude model when nothing else names one",
        in_project=True,
        old_variable="CLEW_CLAUDE_MODEL",
    ),
    Setting("agents.codex.path", word, None, "the Codex CLI; none: found by Clew", old_variable="CLEW_CODEX_PATH"),
    Setting(
        "agents.codex.model",
        model,
        None,
        "the Codex model when nothing else names one",
        in_project=True,
        old_variable="CLEW_CODEX_MODEL",
    ),
    Setting("retention.threads", duration, None, "threads unused for this time are archived once a day; none: never"),
    Setting("retention.archives", duration, 2_592_000.0, "archives older than this are removed; none: never"),
    Setting("remote.url", word, None, "where `clew threads push` and `pull` go without a URL: s3://bucket/path"),
    Setting("remote.sign", word, None, "the SSH key that `clew threads push` signs with; none: it does not sign"),
    Setting(
        "remote.signers",
        signers,
        None,
        "the signatures that `clew threads pull` and `import` accept: public keys, or files of them; none: all",
    ),
    Setting("serve.host", name, "127.0.0.1", "where `clew serve` listens"),
    Setting("serve.port", port, 7421, "its port; 0: any free one"),
    Setting("serve.roots", folders, None, "the directories in which `clew serve` may work; none: all"),
    Setting("serve.work", up_to_a_thousand, None, "jobs that it runs at once; none: 2, or 0 if there are none for it"),
    Setting("serve.worker", boolean, False, "it runs all queued jobs, not only those of hooks"),
)
TABLES_OF_OTHERS = ("hooks",)  # tables of the user's own file that are not settings; other modules read them
NO_SETTINGS = (  # variables that clew.toml cannot set; docs/settings.md describes them
    *("CLEW_HOME", "CLEW_CONFIG", "CLEW_PASSPHRASE", "CLEW_DEBUG", "CLEW_ATTEMPT", "CLEW_RESIDENT_WAIT"),
    *("CLEW_GITHUB_SECRET", "CLEW_GITEA_SECRET", "CLEW_FORGEJO_SECRET"),
    *("CLEW_GITHUB_TOKEN", "CLEW_GITEA_TOKEN", "CLEW_FORGEJO_TOKEN"),
    *("CLEW_FAULT", "CLEW_SCRIPT", "CLEW_SCRIPT_LOG", "CLEW_SOAK", "CLEW_SOAK_EXAMPLES"),
    *("CLEW_SOAK_SECONDS", "CLEW_SOAK_SEED"),
)
BY_NAME = {setting.name: setting for setting in TABLE}
BY_ALIAS = {setting.alias: setting for setting in TABLE if setting.alias is not None}
TABLES = {name[:place] for name in BY_NAME for place, letter in enumerate(name) if letter == "."}
VARIABLES = (*(setting.variable for setting in TABLE), *NO_SETTINGS)
OLD_VARIABLES = tuple(setting.old_variable for setting in TABLE if setting.old_variable is not None)
VALUE_CHARS = 200  # how many characters of a value an error shows


def load(environ: Mapping[str, str], work_dir: Path | None = None, flags: Mapping[str, Any] | None = None) -> Settings:
    """All settings. Raises a ConfigError that names the file or variable and the value."""
    settings = Settings((setting.name, Value(setting.default, "default")) for setting in TABLE)
    user = user_file(environ)
    if user is not None:
        from clew.config import file as config_file

        settings.update(config_file.of_user(user))
    project = (work_dir / "clew.toml") if work_dir is not None else None
    if project is not None and project != user and project.is_file():
        from clew.config import file as config_file

        values, settings.ignored = config_file.of_project(project)
        settings.update(values)
    for setting in TABLE:
        variable = setting.variable_in(environ)
        if variable is not None:
            settings[setting.name] = _parsed(setting, environ[variable], f"environment {variable}")
    settings.unknown = unknown_variables(environ)
    settings.update(known_values([(name, value) for name, value in (flags or {}).items() if value is not None], "flag"))
    return settings


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """A message that names the unknown CLEW_ variables, without their values; (): there are none."""
    known = {*VARIABLES, *OLD_VARIABLES}
    names = [name for name in environ if name.startswith("CLEW_") and name not in known and environ[name].strip()]
    if not names:
        return ()
    from clew.core import spelling

    return (f"environment: {spelling.unknown_names('variable', sorted(names), VARIABLES)}",)


def home(environ: Mapping[str, str]) -> Path:
    """The folder of the store: CLEW_HOME, or the platform's folder for state."""
    return Path(location.home(environ))


def cache(environ: Mapping[str, str]) -> Path:
    """The platform's folder for files that can be made again."""
    chosen = environ.get("XDG_CACHE_HOME")
    folder = Path(chosen) if chosen and Path(chosen).is_absolute() else _user_home(environ) / ".cache"
    return Path(os.path.realpath(folder / "clew"))


def user_file(environ: Mapping[str, str]) -> Path | None:
    """The user's own clew.toml: CLEW_CONFIG, in CLEW_HOME, or in the platform's folder for settings."""
    chosen = environ.get("CLEW_CONFIG")
    if chosen:
        path = Path(chosen).expanduser().absolute()
        if not path.is_file():
            raise ConfigError(f"CLEW_CONFIG names {chosen}, but there is no such file.")
        return path
    return next((path for path in places(environ) if path.is_file()), None)


def places(environ: Mapping[str, str]) -> tuple[Path, Path]:
    """Where the user's own clew.toml may be; the first one that exists is used."""
    settings = environ.get("XDG_CONFIG_HOME")
    folder = Path(settings) if settings else _user_home(environ) / ".config"
    return home(environ) / "clew.toml", folder / "clew" / "clew.toml"


def _user_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "~").expanduser()


def known_values(given: list[tuple[str, Any]], source: str) -> dict[str, Value]:
    """The parsed values by the names of the settings. Raises ConfigError for unknown names and wrong values."""
    if unknown := [name for name, _ in given if setting_of(name) is None]:
        hint = "Correct or remove it; clew config path names the file."
        raise ConfigError(f"{source}: {unknown_keys(unknown)}", hint=hint)
    values: dict[str, Value] = {}
    for name, value in given:
        setting = setting_of(name)
        assert setting is not None
        put(values, setting, value, source)
    return values


def put(values: dict[str, Value], setting: Setting, value: Any, source: str) -> None:
    """Adds a value. If a setting is given twice with different values, neither is used, and ConfigError is raised."""
    parsed = _parsed(setting, value, source)
    if values.setdefault(setting.name, parsed) == parsed:
        return
    del values[setting.name]
    other = f": {setting.alias} is another name for it" if setting.alias else ""
    raise ConfigError(
        f"{source}: {setting.name} is given twice, with different values.", hint=f"Keep one of them{other}."
    )


def setting_of(name: str) -> Setting | None:
    """The setting with that name or alias."""
    return BY_NAME.get(name) or BY_ALIAS.get(name)


def unknown_keys(names: list[str]) -> str:
    from clew.core import spelling

    return spelling.unknown_names("setting", names, (*BY_NAME, *TABLES), TABLES_OF_OTHERS)


def matches(value: str, pattern: str) -> bool:
    """Whether the value matches the pattern, in which `*` stands for anything."""
    from fnmatch import fnmatchcase

    return fnmatchcase(value, pattern)


def _parsed(setting: Setting, value: Any, source: str) -> Value:
    try:
        return Value(setting.parse(value), source)
    except (ValueError, TypeError, OverflowError) as error:
        where = "Correct it" if source == "flag" else f"Correct or remove it: {source}"
        raise ConfigError(f"{setting.name} = {_shown(value)} ({source}) {error}.", hint=f"{where}.") from error


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a number with more digits than Python converts to text
        return "a number that is too long"
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]}…"
