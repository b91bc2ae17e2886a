"""The [hooks] part of clew.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew import config
from clew.config import hooks as hooks_config
from clew.core.hooks.hook import Forge, Update
from clew.core.hooks.settings import HookSettings
from clew.core.thread import Permissions
from clew.errors import ConfigError

GOOD = """
agent = "claude"

[hooks]
skills = "my skills"
text_limit = 500
sweep_age = "7d"

[hooks.forges.gitea]
url = "https://forge.example/"

[hooks.agents.boss]
model = "opus"
allowed_tools = ["Bash(make test*)"]
timeout = "10m"

[hooks.agents.reviewer]
agent = "codex"
permissions = "read-only"
skills = "/elsewhere"

[hooks.repos."charles/peon"]
path = "peon"
writers = ["alice"]

[[hooks.rules]]
agent = "boss"
events = ["issue.*"]
labels = "boss"
command = "/boss"

[[hooks.rules]]
agent = "reviewer"
events = ["pull.review_requested"]
update = "fetch"
comment = true
"""


def load(folder: Path, text: str) -> HookSettings:
    (folder / "clew.toml").write_text(text)
    environ = {"CLEW_HOME": str(folder), "HOME": str(folder)}
    config.load(environ)
    return hooks_config.load(environ)


def test_agents_repositories_and_rules(tmp_path: Path) -> None:
    settings = load(tmp_path, GOOD)
    boss, reviewer = settings.agents
    assert (boss.agent, boss.model, boss.permissions, boss.timeout_s) == ("claude", "opus", Permissions.EDITS, 600.0)
    assert boss.skills == str(tmp_path / "my skills" / "boss")
    assert (reviewer.agent, reviewer.permissions, reviewer.skills) == ("codex", Permissions.READ_ONLY, "/elsewhere")
    assert settings.repos[0].path == str(tmp_path / "peon")
    assert settings.repo("Charles/Peon") is settings.repos[0]
    assert settings.rules[0].labels == ("boss",)
    assert (settings.rules[1].update, settings.rules[1].comment, settings.rules[1].anyone) == (
        Update.FETCH,
        True,
        False,
    )
    assert settings.url(Forge.GITEA) == "https://forge.example"
    assert (settings.text_limit, settings.sweep_age_s) == (500, 7 * 86_400.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hooks = 3", "hooks"),
        ("[hooks]\nnonsense = 1", "nonsense"),
        ("[hooks.agents.'a b']", "is not a name"),
        ("[hooks.agents.boss]\nmodle = 'x'", "hooks.agents.boss has no 'modle' (did you mean model?); known: "),
        ("[hooks.agents.boss]\ntimeout = 'soon'", "not a duration"),
        ("[hooks.agents.boss]\npermissions = 'root'", "is not one of"),
        ("[hooks.repos.peon]\npath = 'x'", "owner/name"),
        ("[hooks.repos.'../..']\npath = 'x'", "owner/name"),
        ("[hooks.repos.'a/b']", "has no path"),
        ("[[hooks.rules]]\nagent = 'nobody'\nevents = ['issue.opened']", "nobody"),
        ("[hooks.agents.b]\n[[hooks.rules]]\nagent = 'b'\nevents = ['issue.opend']", "issue.opend"),
        ("[hooks.agents.b]\n[[hooks.rules]]\nagent = 'b'", "no events"),
        ("[hooks.agents.b]\n[[hooks.rules]]\nagent = 'b'\nevents = ['*']\ncommand = 'boss'", "slash"),
        ("[hooks]\nrules = 1", "not a list"),
        ("[hooks.forges.svn]\nurl = 'https://x'", "is not one of"),
        ("[hooks.forges.gitea]\nurl = 'ftp://x'", "web address"),
    ],
)
def test_an_error_names_the_place_of_the_mistake(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, text)
    assert words in raised.value.message and "clew.toml" in raised.value.message


def test_a_work_directory_cannot_set_hooks(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "clew.toml").write_text(GOOD)
    environ = {"CLEW_HOME": str(tmp_path), "HOME": str(tmp_path)}
    settings = config.load(environ, work)
    assert any("hooks" in words for words in settings.ignored)
    assert hooks_config.load(environ).agents == ()
