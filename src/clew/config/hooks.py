"""The `[hooks]` part of the user's own clew.toml: named agents, repositories, rules.

    [hooks]
    skills = "skills"                     # folders are relative to the file

    [hooks.agents.boss]
    model = "opus"
    allowed_tools = ["Bash(make test*)"]

    [hooks.repos."charles/peon"]
    path = "~/src/peon"

    [[hooks.rules]]
    agent = "boss"
    events = ["issue.labeled"]
    labels = ["boss"]

A work directory's clew.toml cannot set any of it. Why msgspec does not read it: ADR 47.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clew.config import file as config_file
from clew.config.settings import at_least_one, boolean, duration, matches, user_file, word
from clew.core.hooks.hook import AGENT, KINDS, Forge, HookAgent, Rule, Update, is_repo
from clew.core.hooks.settings import HookRepo, HookSettings
from clew.core.record import Record
from clew.core.thread import Permissions
from clew.errors import ConfigError

SECRET = "CLEW_{}_SECRET"  # the environment variable with the secret of a forge's webhooks
TOKEN = "CLEW_{}_TOKEN"  # the environment variable with the token for a forge's API


class ForgeKeys(Record):
    """The secret and the token of a forge, from the environment. They are never stored, shown or given to an agent."""

    secret: str | None
    token: str | None


def keys_of(forge: Forge, environ: Mapping[str, str]) -> ForgeKeys:
    name = forge.value.upper()
    return ForgeKeys(environ.get(SECRET.format(name)) or None, environ.get(TOKEN.format(name)) or None)


def load(environ: Mapping[str, str]) -> HookSettings:
    """The settings of the user's own file, or the defaults. A ConfigError names the place of a mistake."""
    path = user_file(environ)
    table = config_file.table_of(path, "hooks") if path is not None else None
    return _File(path).settings(table) if path is not None and table else HookSettings()


class _File:
    """Reads and checks the `[hooks]` table of a clew.toml."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def settings(self, table: Mapping[str, Any]) -> HookSettings:
        known = {"skills", "agents", "repos", "rules", "forges", "text_limit", "sweep_age"}
        self._only(table, known, "hooks")
        skills = self._folder(table.get("skills", "skills"), "hooks.skills")
        agents = tuple(self._agent(name, each, skills) for name, each in self._tables(table, "agents").items())
        repos = tuple(self._repo(name, each) for name, each in self._tables(table, "repos").items())
        rules = self._list(table.get("rules", []), "hooks.rules")
        names = {agent.name for agent in agents}
        return HookSettings(
            agents=agents,
            repos=repos,
            rules=tuple(self._rule(number, each, names) for number, each in enumerate(rules, start=1)),
            urls=tuple(
                (self._one_of(Forge, name, "hooks.forges"), self._url(each, f"hooks.forges.{name}"))
                for name, each in self._tables(table, "forges").items()
            ),
            text_limit=self._parsed(at_least_one, table.get("text_limit", 20_000), "hooks.text_limit"),
            sweep_age_s=self._parsed(duration, table.get("sweep_age", "30d"), "hooks.sweep_age") or 1e18,
        )

    def _agent(self, name: str, table: Mapping[str, Any], skills: Path) -> HookAgent:
        where = f"hooks.agents.{name}"
        self._only(table, {"agent", "model", "skills", "allowed_tools", "timeout", "permissions", "max_age"}, where)
        if not AGENT.match(name):
            raise self._wrong(where, "is not a name: use at most 40 letters, digits, dots, dashes and underscores")
        folder = self._folder(table["skills"], f"{where}.skills") if "skills" in table else skills / name
        return HookAgent(
            name=name,
            agent=self._text(table.get("agent", "claude"), f"{where}.agent"),
            model=self._parsed(word, table["model"], f"{where}.model") if "model" in table else None,
            skills=str(folder),
            allowed_tools=self._tools(table.get("allowed_tools", []), f"{where}.allowed_tools"),
            timeout_s=self._parsed(duration, table.get("timeout", "30m"), f"{where}.timeout"),
            permissions=self._one_of(Permissions, table.get("permissions", "edits"), f"{where}.permissions"),
            max_age_s=self._parsed(duration, table["max_age"], f"{where}.max_age") if "max_age" in table else None,
        )

    def _repo(self, name: str, table: Mapping[str, Any]) -> HookRepo:
        where = f'hooks.repos."{name}"'
        self._only(table, {"path", "forge", "branch", "remote", "writers"}, where)
        if not is_repo(name):
            raise self._wrong(where, "is not a repository: write owner/name")
        if "path" not in table:
            raise self._wrong(where, "has no path: say where the repository is on this machine")
        return HookRepo(
            name=name,
            path=str(self._folder(table["path"], f"{where}.path")),
            forge=self._one_of(Forge, table["forge"], f"{where}.forge") if "forge" in table else None,
            branch=self._text(table["branch"], f"{where}.branch") if "branch" in table else None,
            remote=self._text(table.get("remote", "origin"), f"{where}.remote"),
            writers=self._texts(table.get("writers", []), f"{where}.writers"),
        )

    def _rule(self, number: int, table: Any, agents: set[str]) -> Rule:
        where = f"hooks.rules, number {number},"
        if not isinstance(table, dict):
            raise self._wrong(where, "is not a table")
        lists = {"events", "repos", "labels", "authors", "actors", "branches", "reviewers"}
        flags = {"forks", "anyone", "comment"}
        self._only(table, lists | flags | {"agent", "mention", "command", "update"}, where)
        agent = self._text(table.get("agent"), f"{where} agent")
        if agent not in agents:
            raise self._wrong(where, f"names the agent {agent!r}, but there is no hooks.agents.{agent}")
        given: dict[str, Any] = {name: self._texts(table.get(name, []), f"{where} {name}") for name in lists}
        for event in given["events"]:
            if not any(matches(kind, event) for kind in KINDS):
                raise self._wrong(where, f"names {event!r}, which is not an event; known: {', '.join(KINDS)}")
        if not given["events"]:
            raise self._wrong(where, "names no events")
        for name in flags:
            given[name] = self._parsed(boolean, table.get(name, False), f"{where} {name}")
        for name in ("mention", "command"):
            given[name] = self._text(table[name], f"{where} {name}") if name in table else None
        if given["command"] and (not given["command"].startswith("/") or len(given["command"].split()) != 1):
            raise self._wrong(where, "command is not one word that begins with a slash, such as /boss")
        return Rule(
            agent=agent, update=self._one_of(Update, table.get("update", "forward"), f"{where} update"), **given
        )

    def _wrong(self, where: str, what: str) -> ConfigError:
        return ConfigError(f"{self._path}: {where} {what}.", hint="docs/hooks.md shows the format.")

    def _only(self, table: Mapping[str, Any], known: set[str], where: str) -> None:
        for name in table:
            if name not in known:
                from clew.core import spelling

                close = spelling.suggestion(name, known)
                raise self._wrong(where, f"has no {name!r}{close}; known: {', '.join(sorted(known))}")

    def _tables(self, table: Mapping[str, Any], name: str) -> dict[str, Mapping[str, Any]]:
        found = table.get(name, {})
        if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
            raise self._wrong(f"hooks.{name}", "is not a table of tables")
        return found

    def _list(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, list):
            raise self._wrong(where, "is not a list: write [[hooks.rules]]")
        return value

    def _texts(self, value: Any, where: str) -> tuple[str, ...]:
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(each, str) and each.strip() for each in values):
            raise self._wrong(where, "is not a list of texts")
        return tuple(values)

    def _tools(self, value: Any, where: str) -> tuple[str, ...]:
        tools = self._texts(value, where)
        for tool in tools:
            if not re.fullmatch(r"(?:[A-Z]\w*|mcp__[\w-]+)|Bash\(.+\)", tool):
                raise self._wrong(
                    where, f"names {tool!r}, which is not a tool; write WebFetch, Bash, or Bash(make test)"
                )
        return tools

    def _text(self, value: Any, where: str) -> str:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self._wrong(where, "is not a text")
        return value.strip()

    def _url(self, table: Mapping[str, Any], where: str) -> str:
        self._only(table, {"url"}, where)
        url = self._text(table.get("url"), f"{where}.url")
        if not url.startswith(("http://", "https://")):
            raise self._wrong(f"{where}.url", "is not a web address")
        return url.rstrip("/")

    def _folder(self, value: Any, where: str) -> Path:
        return (self._path.parent / Path(self._text(value, where)).expanduser()).absolute()

    def _one_of(self, kind: Any, value: Any, where: str) -> Any:
        try:
            return kind(value)
        except ValueError as error:
            raise self._wrong(where, f"is not one of {', '.join(each.value for each in kind)}") from error

    def _parsed(self, parse: Callable[[Any], Any], value: Any, where: str) -> Any:
        try:
            return parse(value)
        except (ValueError, TypeError) as error:
            raise self._wrong(where, str(error)) from error
