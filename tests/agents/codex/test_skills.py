"""What Codex is told about skills: those that a prompt names are off, and a repository's are not listed."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from clew.agents.adapter import LaunchProfile
from clew.agents.codex.skills import settings
from clew.core.thread import Permissions, Trust
from clew.errors import UsageError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in (".codex/skills/deploy", ".codex/plugins/cache/p/skills/x", "work/.codex/skills/style"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "SKILL.md").write_text(f"---\nname: {Path(name).name}\n---\nSee $other.\n")
    (tmp_path / "repo").mkdir()
    return tmp_path


def told(home: Path, prompt: str, trust: Trust = Trust.USER, work: str = "repo") -> dict[str, Any]:
    launch = LaunchProfile(
        "s",
        False,
        None,
        Permissions.ASK,
        trust,
        str(home / work),
        str(home / ".codex"),
        prompt=prompt,
        home=str(home),
    )
    return {key: tomllib.loads(f"v = {value}")["v"] for key, value in settings(launch)}


def off(home: Path, prompt: str, *, work: str = "repo") -> list[str]:
    """The folders of the skills that are switched off."""
    found = told(home, prompt, work=work).get("skills.config", [])
    assert all(each["enabled"] is False and Path(each["path"]).name == "SKILL.md" for each in found)
    return [Path(each["path"]).parent.name for each in found]


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("nothing", []),
        ("$deploy", ["deploy"]),
        ("pa$deploy, `$deploy` and $$other", ["deploy"]),
        ("$p:x", ["x"]),
        ("$deploy-it $Deploy ${deploy} $(deploy) @deploy $pa55word", []),
        ("[$a](deploy/skill.md) and [$b]( skill://r0/x/SKILL.md )", ["deploy", "x"]),
        ("[$a] (/elsewhere/deploy/SKILL.md)", ["deploy"]),
    ],
)
def test_the_skills_that_a_prompt_names_are_off(home: Path, prompt: str, names: list[str]) -> None:
    assert sorted(off(home, prompt)) == names
    assert not [word for word in ("pa55word", "elsewhere") if word in str(told(home, prompt))], "as all users could see"


@pytest.mark.parametrize(
    "head",
    [
        'name: "st\\x79le"\n',
        '"name": style\n',
        "{name: style, description: d}\n",
        "name: >-\n  style\n",
        "name: &a style\n",
        "name: other\nname: style\n",
        "? name\n: style\n",
        " name: style\n",
        "\tname: style\n",
        'other: "a\nname: other\n b"\n name: style\n',
        " ---\nname: other\n",
        "other: a\u0085name: style\n",
        "other: a\rname: style\n",
        "name: other\n  more: x\n",
        "",
    ],
)
def test_a_skill_whose_name_is_written_in_a_strange_way_is_off_when_anything_is_named(home: Path, head: str) -> None:
    file = home / "work/.codex/skills/style/SKILL.md"
    file.write_text(f"---\ndescription: d\n{head}---\nText.\n")
    assert off(home, "$PATH", work="work") == ["style"]
    file.write_text("---\nname: 'style'\ndescription: |\n  d: {}\n\nmetadata:\n  name: other\nlist:\n- x\n---\nText.\n")
    assert off(home, "$PATH", work="work") == [] and off(home, "$style", work="work") == ["style"]


def test_folders_that_contain_themselves_are_searched_once(home: Path) -> None:
    skills = home / "work/.codex/skills"
    for name in ("again", "and-again"):
        (skills / name).symlink_to(".")
    (home / "elsewhere").mkdir()
    (home / "elsewhere" / "SKILL.md").write_text("---\nname: linked\n---\n")
    (skills / "linked").symlink_to(home / "elsewhere")
    assert off(home, "$linked $style", work="work") == ["elsewhere", "style"]


def test_a_strange_link_hides_no_skill(home: Path) -> None:
    skills = home / "work/.codex/skills"
    for number in range(9):
        for name, target in (("loop", f"loop{number}"), ("through", "style/SKILL.md/x"), ("long", "n" * 300)):
            (skills / f"{name}{number}").symlink_to(target)
    assert off(home, "$style", work="work") == ["style"]


def test_a_link_names_a_linked_skill_by_its_own_folder(home: Path) -> None:
    (home / "store" / "real").mkdir(parents=True)
    (home / "store" / "real" / "SKILL.md").write_text("---\nname: other\n---\n")
    (home / ".codex/skills/alias").symlink_to(home / "store" / "real")
    assert off(home, f"[$q]({home}/store/real/SKILL.md)") == ["real"]


def test_a_folder_that_is_not_utf_8_is_switched_off_by_its_name(home: Path) -> None:
    folder = os.fsencode(home / "work/.codex/skills") + b"/caf\xe9"
    os.mkdir(folder)  # noqa: PTH102
    for head, found in (("name: latin", {"name": "latin", "enabled": False}), ("", None)):
        with open(folder + b"/SKILL.md", "w") as file:  # noqa: PTH123
            file.write(f"---\n{head}\n---\n")
        if found is None:
            with pytest.raises(UsageError, match="whose name is not UTF-8"):
                told(home, "$HOME", work="work")
        else:
            assert found in told(home, "$latin", work="work")["skills.config"]


def test_a_long_prompt_full_of_links_is_read_at_once(home: Path) -> None:
    assert off(home, "[$a](" * 200_000) == []


def test_what_cannot_be_switched_off_is_refused_in_one_line(home: Path) -> None:
    for number in range(2000):
        folder = home / f"work/.codex/skills/{number:060}"
        folder.mkdir()
        (folder / "SKILL.md").touch()
    with pytest.raises(UsageError, match=r"too many skills .*work/.codex/skills"):
        off(home, "$x", work="work")
    (home / "work/.codex/skills/everything").symlink_to("/")
    with pytest.raises(UsageError, match=r"too many (folders|skills) "):
        off(home, "$x", work="work")


def test_a_repository_that_brings_skills_lists_none_without_trust(home: Path) -> None:
    assert told(home, "", work="work") == {"skills.include_instructions": False}
    assert told(home, "", Trust.PROJECT, "work") == {}
    (home / "repo" / ".agents").mkdir()
    (home / "repo" / ".agents" / "skills").symlink_to("nowhere")
    assert told(home, "") == {"skills.include_instructions": False}
