"""Every kind of event as the forges send it, and the prompts that the skills in docs/skills make of it, in both forms.

`prompts/` has one file for each case, with the whole full and the whole delta prompt; forges that lead to the same
prompts share it. `make prompts` writes the files again: read the difference, and commit it with the change.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.core.hooks.hook import CLEAN_UP, HookAgent, HookEvent, Match, Rule, route
from clew.core.hooks.settings import HookSettings
from clew.core.record import Record
from clew.hosts.hooks.skills import SkillForm, Skills
from hooks.forge.test_events import KIND_OF, must_read, payload_of, read

PROMPTS = Path(__file__).with_name("prompts")
SKILLS = Path(__file__).parents[2] / "docs" / "skills"
MARK = "0123456789abcdef"
WRITERS = {"alice", "carol"}  # bob and mallory have no write access
HEADINGS = {form: f"===== {form} =====\n" for form in SkillForm}

RULES = (
    Rule("boss", ("*",), command="/boss", anyone=True, forks=True),
    Rule("boss", ("*",), anyone=True, forks=True),
    Rule("reviewer", ("pull.opened", "pull.updated", "pull.review_requested"), anyone=True),
    Rule("reviewer", ("pull.commented",), command="/reviewer", anyone=True),
)
SETTINGS = HookSettings(tuple(HookAgent(name, skills=str(SKILLS / name)) for name in ("boss", "reviewer")), rules=RULES)


class Case(Record):
    """One event, and the file with its prompts."""

    source: str  # the payload, and what is changed in it
    file: str
    agent: HookAgent
    match: Match
    event: HookEvent

    @property
    def name(self) -> str:
        return f"{self.source} -> {self.file}"

    def prompts(self) -> dict[SkillForm, str]:
        skills = Skills(SETTINGS, lambda: MARK)
        return {form: skills.render(self.agent, self.event, self.match, form) for form in SkillForm}

    def text(self) -> str:
        return "\n".join(f"{HEADINGS[form]}{prompt}\n" for form, prompt in self.prompts().items())


# Payloads whose prompts differ from others of their kind: from a fork, with fewer fields, or on a line of a file.
OTHER_FILES = {
    "github.issues.edited": "issue.edited.title",
    "gitea.issues.label_updated": "issue.labeled.unnamed",
    "forgejo.issue_comment.created_on_pull": "pull.commented.with_branch",
    "github.pull_request_review_comment.created": "pull.commented.on_a_line",
}


def cases() -> Iterator[Case]:
    """The forges' payloads, then the kinds and authors for which there is no payload."""
    for forge, kinds in KIND_OF.items():
        for what, kind in kinds.items():
            name = f"{forge}.{what}"
            told = read(name)
            if told is not None and kind not in CLEAN_UP:
                _, _, variant = what.partition("opened_")
                yield from _woken(name, told, OTHER_FILES.get(name), variant)
        yield from _made(forge)


def _made(forge: str) -> Iterator[Case]:
    pull, issue = f"{forge}.pull_request.opened", f"{forge}.issues.opened"
    label, carol = {"name": "agent"}, {"login": "carol"}
    action = "labeled" if forge == "github" else "label_updated"
    labeled = _pull(pull, action=action, label=label, labels=[label])
    yield from _woken(f"{pull}, labeled", labeled)
    yield from _woken(f"{pull}, assigned", _pull(pull, action="assigned", assignee=carol, assignees=[carol]))
    yield from _woken(f"{pull}, edited", _pull(pull, action="edited", changes={"title": {"from": "Old"}}))
    yield from _woken(f"{issue}, by a writer", must_read(issue).replace(actor="alice", author="alice"), None, "command")

    comment = must_read(f"{forge}.issue_comment.created")
    yield from _woken(f"{issue}, a bare command", comment.replace(text="/boss"), None, "bare_command")
    yield from _woken(f"{issue}, by a stranger", comment.replace(actor="bob"), None, "command_of_a_stranger")
    yield from _woken(f"{issue}, no command", comment.replace(text="I see it, too."), None, "plain")

    kind = "pull_request_review" if forge == "github" else "pull_request_rejected"
    review = must_read(f"{forge}.{kind}.changes_requested")
    yield from _woken(f"{forge}.{kind}, by a stranger", review.replace(actor="mallory"), None, "of_a_stranger")
    yield from _woken(f"{forge}.{kind}, no words", review.replace(text=""), None, "without_words")
    yield from _woken(f"{forge}.{kind}, a command", review.replace(text="/boss fix it"), None, "command")
    reviewed = review.replace(kind="pull.reviewed", text="Have you thought of a maze without exits?")
    yield from _woken(f"{forge}.{kind}, a review that only comments", reviewed)
    line = review.replace(kind="pull.commented", comment_path="src/maze/way.py", comment_line=12)
    yield from _woken(f"{forge}, on a line", line.replace(text="/boss fix it"), None, "command_on_a_line")
    yield from _woken(f"{forge}, to the reviewer", line.replace(text="/reviewer look"), None, "to_the_reviewer")


def _pull(name: str, *, action: str, **more: Any) -> HookEvent:
    """A payload with another action, changed in the same way at the top level and in the pull request."""
    payload = payload_of(name)
    return must_read(name, payload | {"action": action, "pull_request": payload["pull_request"] | more} | more)


def _woken(source: str, told: HookEvent, file: str | None = None, variant: str = "") -> Iterator[Case]:
    for found in route(RULES, told):
        agent = SETTINGS.agent(found.rule.agent)
        assert agent is not None
        match = found.replace(by_writer=told.actor in WRITERS)
        name = file or ".".join(part for part in (told.kind, variant) if part)
        event = (
            told if told.number is not None else told.replace(number=5)
        )  # a push wakes the agents that work on its branch
        yield Case(source, f"{agent.name}/{name}.md", agent, match, event)


def write() -> None:
    for old in PROMPTS.glob("*/*.md"):
        old.unlink()
    for case in cases():
        path = PROMPTS / case.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(case.text(), "utf-8")


if __name__ == "__main__":
    write()
