"""docs/hooks.md: its settings, its skills and every command line in it work, and its tables name what the code has."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from clew.config import hooks as hooks_config
from clew.core.hooks.hook import KINDS, Forge, HookAgent, HookEvent, Meaning, Rule
from clew.core.hooks.settings import HookRepo
from clew.core.record import fields_of
from clew.hosts.hooks.skills import Skills
from reviews.reviewer import git, repository
from test_docs import anchors, blocks, cells, page, section

DOCS = Path(__file__).parents[3] / "docs"
PAYLOADS = Path(__file__).parents[2] / "hooks" / "payloads"
PAGE = "hooks.md"


@pytest.fixture
def set_up(cli: Any) -> Any:
    """Sets up what the page describes: clew.toml, a clone, the skills, and the files that its commands name."""
    stage = cli.stage
    stage.clew_home.mkdir(mode=0o700)
    [(_, settings)] = blocks(page(PAGE), "toml")
    (stage.clew_home / "clew.toml").write_text(settings)
    shutil.copytree(DOCS / "skills", stage.clew_home / "skills")
    (stage.home / "src").mkdir()
    git(stage.home / "src", "clone", "-q", str(repository(stage.folder / "origin")), "peon")
    [(_, event)] = blocks(page(PAGE), "json")
    (stage.work / "event.json").write_text(event)
    for name, source in {
        "gitea.issues.opened.json": "gitea.issues.opened.json",
        "payload.json": "gitea.issue_comment.created.json",
    }.items():
        shutil.copy(PAYLOADS / source, stage.work / name)
    old = stage.home / ".local/state/claude-hooks/sessions.json"
    old.parent.mkdir(parents=True)
    old.write_text(json.dumps({"boss:charles/peon:9": "11111111-2222-4333-8444-555555555555"}))
    return cli


def commands() -> list[list[str]]:
    """Every `clew hooks` command of the page, in order."""
    lines = [line for _, block in blocks(page(PAGE), "sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("clew hooks ")]


@pytest.mark.rest
def test_every_command_line_of_the_page_works(set_up: Any) -> None:
    assert len(commands()) >= 15
    home = str(set_up.stage.home)
    for _, *words in commands():
        done = set_up.run(*(word.replace("~", home) for word in words))
        assert done.code == 0, (words, done.out, done.err)
        if words[1:] == ["check"]:
            assert "nothing would fail" in done.out
            assert "warning  No secret is set here" in done.out and done.out.count("warning") == 1
        if words[1:] == ["fire", "event.json", "--dry-run"]:
            assert "wakes    boss: claude claude-sonnet-4-5, edits" in done.out
            assert "rule     number 2, by /boss" in done.out
            assert "Your job now: do the task that “charles” gives you here." in done.out
        if words[1] == "sessions":
            assert "boss:charles/peon:4" in done.out
        if words[1:] == ["reset", "boss:charles/peon:4"]:
            assert done.out == "boss:charles/peon:4: dropped\n"


def test_the_tables_match_the_code() -> None:
    text = page(PAGE)
    rules = section(text, "Rules")
    assert {name for name in cells(rules) if name in fields_of(Rule)} == {*fields_of(Rule)} - {"agent"}
    named = set(re.findall(r"`((?:issue|pull|branch)\.\w+)`", rules))
    assert named == {*KINDS}
    agent = text[text.index("Of an agent,") : text.index("Of a repository,")]
    known = {name.removesuffix("_s") for name in fields_of(HookAgent)} - {"name"}
    assert {*cells(agent)} >= known and {name for name in cells(agent) if name in known} == known
    repo = text[text.index("Of a repository,") : text.index("## Rules")]
    assert {*cells(repo)} >= {*fields_of(HookRepo)} - {"name"}
    fields = text[text.index("An event's fields:") : text.index("## Exit codes")]
    assert {*re.findall(r"`(\w+)`", fields)} >= {*fields_of(HookEvent)} - {"delivery"}
    for forge in Forge:
        assert hooks_config.SECRET.format(forge.value.upper()) in text, forge
        assert hooks_config.TOKEN.format(forge.value.upper()) in text, forge


def test_every_variable_of_a_template_is_documented(set_up: Any) -> None:
    settings = hooks_config.load(set_up.environ())
    [boss, _] = settings.agents
    from clew.core.hooks.hook import Forge, Match

    event = HookEvent(Forge.GITEA, "d", "issue.opened", "charles/peon", 4, "alice")
    variables = Skills(settings)._variables(boss, event, Match(settings.rules[0]), "mark")
    printed = set(re.findall(r"`(\w+)`", "".join(row.split(" | ")[0] for row in _rows(section(page(PAGE), "Skills")))))
    assert set(variables) <= printed


def test_the_documented_meanings_are_those_of_the_fences_and_the_skills() -> None:
    printed = section(page(PAGE), "What the agent makes of a text")
    assert set(re.findall(r"^\| `<<<(\w+)", printed, re.MULTILINE)) == {*Meaning}
    [(_, example)] = blocks(page(PAGE), "jinja")
    for form in ("full", "delta"):
        lines = (DOCS / "skills" / "boss" / f"default.{form}.md").read_text().splitlines()
        assert {line for line in example.splitlines() if line.startswith(("What", "Your"))} <= {*lines}


def _rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| `")]


def test_links_have_targets() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page(PAGE)):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        there = DOCS / (name or PAGE)
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target
