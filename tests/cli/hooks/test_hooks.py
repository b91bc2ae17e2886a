"""`clew hooks`: a dry run shows which agent an event would wake. Events are fired and listed."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from clew.core.hooks.hook import session_key
from clew.testing.model.scripts import FINAL, Fail, Text, ToolUse
from clew.testing.stage import MODEL, Stage
from hooks.forge.fake_forge import TOKEN, FakeForge
from hooks.project import REPO, SETTINGS, HookProject, event
from reviews.reviewer import git
from reviews.test_import import in_the_plain_cli

KEY = session_key("boss", REPO, 4)
PAYLOADS = Path(__file__).parents[2] / "hooks" / "payloads"


@pytest.fixture
def project(cli: Any) -> HookProject:
    return HookProject(cli.stage)


def own(folder: Path, name: str = "event.json", **more: Any) -> str:
    """An event as Clew stores it, in a file."""
    given = event(**more).as_dict()
    path = folder / name
    path.write_text(json.dumps({key: value for key, value in given.items() if value not in ("", None)}))
    return str(path)


def payload(folder: Path, name: str, **changes: Any) -> str:
    """A forge's payload, for the project's repository, by a person with write access."""
    body = json.loads((PAYLOADS / name).read_text())
    body["repository"]["full_name"] = REPO
    body["sender"]["login"] = "alice"
    path = folder / name
    path.write_text(json.dumps(body | changes))
    return str(path)


def unmarked(prompt: str) -> str:
    """The text without the random marks of its fences."""
    return re.sub(r"\b[0-9a-f]{16}\b", "MARK", prompt)


# check


@pytest.mark.rest
def test_check_lists_what_is_fine_and_no_secrets(cli: Any, project: HookProject) -> None:
    done = cli.run("hooks", "check", CLEW_GITEA_SECRET="hush-hush", CLEW_GITHUB_TOKEN=TOKEN)
    assert done.code == 0, done.out
    assert "nothing would fail" in done.out
    assert re.search(rf"^ok +agent boss: claude {MODEL}, edits, 5 events; /", done.out, re.M)
    assert f"repo charles/peon: {project.repo}, remote origin" in done.out
    assert "forge gitea: secret present, token absent" in done.out
    assert "forge github: secret absent, token present" in done.out
    shown = cli.run("hooks", "check", "--json", CLEW_GITEA_SECRET="hush-hush", CLEW_GITHUB_TOKEN=TOKEN)
    assert shown.json["ok"] is True and shown.json["problems"] == []
    for text in (done.out, done.err, shown.out, shown.err):
        assert "hush" not in text and TOKEN not in text


def test_check_reports_each_problem_on_a_line_of_its_own(cli: Any, project: HookProject) -> None:
    skills = project.stage.clew_home / "skills"
    (skills / "boss" / "default.delta.md").unlink()
    (skills / "boss" / "issue.opened.delta.md").write_text("{{ nonsense }}")
    (skills / "boss" / "issue.opend.full.md").write_text("never read")
    project.write(
        SETTINGS.replace('path = "{path}"', f'path = "{project.stage.work}"').replace(
            'permissions = "read-only"', 'agent = "nobody"'
        )
        + "comment = true\n"
    )
    done = cli.run("hooks", "check")
    problems = [line for line in done.out.splitlines() if line.startswith("problem ")]
    assert done.code == 2
    assert sum("boss has no delta text for" in line for line in problems) == 4, problems
    assert sum("'nonsense' is undefined" in line for line in problems) == 1
    assert sum("there is no agent 'nobody'" in line for line in problems) == 1
    assert sum("is not a git repository" in line for line in problems) == 1
    assert sum("there is no token" in line for line in problems) == 1
    assert done.out.splitlines()[-1] == "8 problems" and len(problems) == 8
    assert "issue.opend.full.md is never read" in done.out
    assert cli.run("hooks", "check", "--json").json["problems"][0] in problems[0]


def test_check_names_the_place_of_a_broken_setting(cli: Any, project: HookProject) -> None:
    project.write(SETTINGS.replace('events = ["pull.review_requested"]', 'events = ["pull.nonsense"]'))
    done = cli.run("hooks", "check", "--json")
    assert done.code == 2
    [problem] = done.json["problems"]
    assert "clew.toml: hooks.rules, number 2, names 'pull.nonsense'" in problem
    assert cli.run("threads", "list").code == 0, "other commands are not affected"


def test_check_warns_about_allowed_tools_that_have_no_effect(cli: Any, project: HookProject) -> None:
    boss = '[hooks.agents.boss]\nagent = "codex"\nallowed_tools = ["Bash"]\n'
    project.write(SETTINGS.replace("[hooks.agents.boss]\n", boss))
    done = cli.run("hooks", "check", "--json")
    assert done.code == 0, done.out
    assert [line for line in done.json["warnings"] if "codex does not ask, so allowed_tools has no effect" in line]


def test_check_without_settings_says_that_there_are_none(cli: Any) -> None:
    done = cli.run("hooks", "check")
    assert done.code == 0
    assert "Hooks are not set up" in done.out


# fire


@pytest.mark.rest
def test_a_dry_run_shows_the_exact_prompt_and_changes_nothing(both: Any) -> None:
    project = HookProject(both.stage)
    opened = own(both.stage.folder, kind="issue.opened")
    asked = own(both.stage.folder, "asked.json", kind="issue.commented", text="Any news?")
    for file, resumes, beginning in ((opened, False, "SKILL: you are boss"), (asked, True, "DELTA issue.commented #4")):
        before = len(both.stage.launches)
        dry = both.run("hooks", "fire", file, "--dry-run", "--json").json
        [planned] = dry["planned"]
        assert (planned["key"], planned["agent"], planned["rule"]) == (KEY, "boss", 1)
        assert (planned["resumes"], planned["reason"]) == (resumes, None if resumes else "first_turn")
        assert planned["prompt"].startswith(beginning)
        assert len(both.stage.launches) == before
        assert len(both.run("hooks", "events", "--json").json) == (1 if resumes else 0)

        done = both.run("hooks", "fire", file, "--wait", "--json")
        assert done.code == 0, done.err
        [job] = done.json["jobs"]
        assert (job["status"], job["key"], job["cwd"]) == ("succeeded", KEY, planned["work_tree"])
        assert both.stage.prompt != planned["prompt"], "the marks are new"
        assert unmarked(both.stage.prompt) == unmarked(planned["prompt"])
        assert (both.stage.launches[-1].resumes is not None) is resumes
    assert project.repo.is_dir()


@pytest.mark.rest
def test_a_dry_run_of_a_lost_session_shows_the_whole_skill_and_the_transcript(both: Any) -> None:
    HookProject(both.stage)
    assert both.run("hooks", "fire", own(both.stage.folder), "--wait").code == 0
    for file in both.stage.session_files():
        file.unlink()
    asked = own(both.stage.folder, kind="issue.commented", text="Any news?")
    words = both.run("hooks", "fire", asked, "--dry-run").out
    assert "fresh, with the full text: the session's file is gone; 2 turns of the thread are sent with it" in words
    [planned] = both.run("hooks", "fire", asked, "--dry-run", "--json").json["planned"]
    assert planned["reason"] == "session_missing"
    assert both.run("hooks", "fire", asked, "--wait").code == 0
    assert "# Conversation so far" in both.stage.prompt
    assert unmarked(both.stage.prompt) == unmarked(planned["prompt"])


def test_forge_and_event_are_read_from_the_files_name(cli: Any, project: HookProject) -> None:
    file = payload(cli.stage.folder, "gitea.issues.opened.json")
    shown = cli.run("hooks", "fire", file, "--dry-run")
    assert shown.code == 0, shown.err
    assert "event    issue.opened in charles/peon#" in shown.out
    assert "wakes    boss: claude" in shown.out and "prompt   " in shown.out
    assert "nothing was stored" in shown.err
    body = Path(file).read_text()
    plain = cli.stage.folder / "payload.json"
    plain.write_text(body)
    unsaid = cli.run("hooks", "fire", str(plain), "--dry-run")
    assert unsaid.code == 2
    assert "does not say which forge sent it" in unsaid.err and "--forge and --event" in unsaid.err
    assert "which event it is" in cli.run("hooks", "fire", str(plain), "--forge", "gitea", "--dry-run").err
    said = cli.run("hooks", "fire", "-", "--forge", "gitea", "--event", "issues", "--dry-run", "--json", stdin=body)
    assert said.json["event"]["kind"] == "issue.opened" and len(said.json["planned"]) == 1
    other = cli.run("hooks", "fire", str(plain), "--forge", "gitea", "--event", "push", "--dry-run")
    assert other.code == 0 and "no agent is woken" in other.out


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"actor": "mallory"}, "mallory is not known to have write access"),
        ({"repo": "charles/other"}, "the settings have no repository charles/other"),
        ({"kind": "issue.labeled", "label": "x"}, "no rule applies"),
        ({"kind": "issue.closed"}, "it has no session"),
    ],
)
def test_an_ignored_event_has_a_reason(cli: Any, project: HookProject, change: dict[str, Any], why: str) -> None:
    file = own(cli.stage.folder, **change)
    shown = cli.run("hooks", "fire", file, "--dry-run")
    assert (shown.code, f"wakes    no agent: {why}" in shown.out) == (0, True), shown.out
    fired = cli.run("hooks", "fire", file, "--wait", "--json")
    assert (fired.code, fired.json["state"], fired.json["why"]) == (0, "ignored", why)
    assert cli.stage.launches == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"kind": "issue.opened", "repo": "../x", "actor": "a", "number": 1}', "repo is not of the form owner/name"),
        ('{"kind": "issue.opened", "repo": "a/b", "actor": "a", "number": -1}', "number is not a positive"),
        ('{"kind": "issue.opened", "repo": "a/b", "actor": "a"}', "number is missing"),
        ('{"kind": "issue.opened", "repo": "a/b", "number": 1}', "actor is missing"),
        ('{"kind": "nonsense", "repo": "a/b", "actor": "a", "number": 1}', "is not a kind of event"),
        ('{"kind": "issue.opened", "repo": "a/b", "actor": "a", "number": 1, "x": 1}', "an event has no x"),
        ('{"kind": "issue.opened", "repo": "a/b", "actor": "a", "number": 1, "labels": "x"}', "labels is not a list"),
        ('{"kind": "issue.opened", "repo": "a/b", "actor": "a", "number": 1, "body": 7}', "body is not a text"),
    ],
)
def test_a_file_that_is_not_an_event_is_refused_in_one_line(
    cli: Any, project: HookProject, content: str, says: str
) -> None:
    path = cli.stage.folder / "event.json"
    path.write_text(content)
    done = cli.run("hooks", "fire", str(path), "--json")
    assert done.code == 2
    assert says in done.json["error"]["message"]
    assert cli.run("hooks", "events", "--json").json == []


@pytest.mark.rest
def test_without_wait_a_worker_handles_the_event(cli: Any, project: HookProject) -> None:
    fired = cli.run("hooks", "fire", own(cli.stage.folder))
    assert fired.code == 0
    assert "no worker is alive" in fired.err
    [stored] = cli.run("hooks", "events", "--json").json
    assert (stored["id"], stored["state"]) == (fired.out.strip(), "received")
    assert cli.run("work", "--until-idle").code == 0
    [stored] = cli.run("hooks", "events", "--json", "--state", "dispatched").json
    [job] = cli.run("jobs", "list", "--json").json
    assert stored["jobs"] == [job["id"]] and job["status"] == "succeeded"
    table = cli.run("hooks", "events").out
    assert "dispatched" in table and "charles/peon#4" in table and job["id"][:8] in table


@pytest.mark.rest
def test_the_same_file_may_be_fired_again(cli: Any, project: HookProject) -> None:
    file = own(cli.stage.folder)
    assert [cli.run("hooks", "fire", file, "--wait").code for _ in range(2)] == [0, 0]
    assert len(cli.run("hooks", "events", "--json").json) == 2


@pytest.mark.rest
def test_fire_with_wait_posts_the_final_answer(cli: Any) -> None:
    with FakeForge() as forge:
        url = f'[hooks.forges.gitea]\nurl = "{forge.url}"\n'
        HookProject(cli.stage, SETTINGS.replace('"branch.pushed"]', '"branch.pushed"]\ncomment = true') + url)
        forge.permissions["bob"] = "write"
        cli.api.default = Text("It is fixed.")
        file = own(cli.stage.folder, actor="bob")
        shown = cli.run("hooks", "fire", file, "--dry-run", CLEW_GITEA_TOKEN=TOKEN)
        assert "then     its final answer is posted as a comment" in shown.out
        assert forge.comments == []
        done = cli.run("hooks", "fire", file, "--wait", CLEW_GITEA_TOKEN=TOKEN)
        assert (done.code, done.out) == (0, "It is fixed.\n"), done.err
        assert [(number, text.split("\n")[0]) for number, text in forge.comments] == [(4, "It is fixed.")]
        forge.closed.add(4)
        [swept] = cli.run("hooks", "sweep", "--json", CLEW_GITEA_TOKEN=TOKEN).json
        assert (swept["key"], swept["why"]) == (KEY, "it is closed")
        for text in (done.out, done.err, shown.out, shown.err):
            assert TOKEN not in text


@pytest.mark.rest
@pytest.mark.parametrize("as_json", [False, True])
def test_fire_waits_for_a_worker_that_is_alive(cli: Any, project: HookProject, as_json: bool) -> None:
    worker = cli.start("work", "--id", "w1")
    while b"worker w1" not in worker.stderr.readline():
        assert worker.poll() is None
    done = cli.run("hooks", "fire", own(cli.stage.folder), "--wait", *(["--json"] if as_json else []))
    worker.terminate()
    worker.communicate(timeout=60)
    assert done.code == 0, done.err
    assert "no worker is alive" not in done.err
    [job] = cli.run("jobs", "list", "--json").json
    assert (job["status"], job["worker"]) == ("succeeded", "w1")
    if as_json:
        assert [each["id"] for each in done.json["jobs"]] == [job["id"]]
    else:
        assert done.out.strip() == job["result"]


def test_the_exit_code_is_that_of_the_failed_job(cli: Any, project: HookProject) -> None:
    cli.api.default = Fail(401, "authentication_error", "invalid x-api-key", FINAL)
    done = cli.run("hooks", "fire", own(cli.stage.folder), "--wait", "--json")
    assert (done.code, done.json["jobs"][0]["status"]) == (4, "blocked")


# sessions, reset, sweep


@pytest.mark.rest
def test_sessions_are_listed_reset_and_swept(cli: Any, project: HookProject) -> None:
    assert cli.run("hooks", "sessions", "--json").json == []
    assert "No sessions yet." in cli.run("hooks", "sessions").err
    cli.run("hooks", "fire", own(cli.stage.folder), "--wait")
    [session] = cli.run("hooks", "sessions", "--json", "--repo", "Charles/Peon").json
    assert (session["key"], session["state"], session["number"]) == (KEY, "resumable", 4)
    assert session["session_id"] == cli.stage.launches[-1].session_id
    assert Path(session["work_tree"]).is_dir()
    assert cli.run("hooks", "sessions", "--json", "--repo", "charles/other").json == []
    assert re.search(rf"^{KEY} +resumable ", cli.run("hooks", "sessions").out, re.M)

    assert cli.run("hooks", "sweep", "--json").json == []
    project.write(SETTINGS.replace("[hooks.agents.boss]", '[hooks]\nsweep_age = "0.001s"\n\n[hooks.agents.boss]'))
    [printed] = cli.run("hooks", "sweep", "--dry-run", "--json").json
    assert (printed["key"], printed["why"], printed["tree"]) == (KEY, "unused for too long", None)
    assert len(cli.run("hooks", "sessions", "--json").json) == 1
    swept = cli.run("hooks", "sweep")
    assert KEY in swept.out and "1 session dropped" in swept.err
    assert not Path(session["work_tree"]).exists()
    assert cli.run("hooks", "sessions", "--json").json == []


@pytest.mark.rest
def test_a_sweep_counts_sessions_and_orphaned_work_trees_separately(cli: Any, project: HookProject) -> None:
    for number in (4, 5):
        cli.run("hooks", "fire", own(cli.stage.folder, number=number), "--wait")
    cli.run("hooks", "reset", KEY)
    assert cli.run("hooks", "sweep", "--json").json == [], "the issue is open, so its work tree stays"
    project.write(SETTINGS.replace("[hooks.agents.boss]", '[hooks]\nsweep_age = "0.001s"\n\n[hooks.agents.boss]'))
    assert "1 session to drop; 1 work tree without a session to sweep" in cli.run("hooks", "sweep", "--dry-run").err
    assert "1 session dropped; 1 work tree without a session swept" in cli.run("hooks", "sweep").err


@pytest.mark.rest
def test_a_declined_tool_call_names_the_settings_that_would_allow_it(cli: Any, project: HookProject) -> None:
    cli.api.script.extend([ToolUse("Bash", {"command": "make test"}), Text("I may not.")])
    cli.run("hooks", "fire", own(cli.stage.folder), "--wait")
    [job] = cli.run("jobs", "list", "--json").json
    logs = cli.run("jobs", "logs", job["id"])
    said = logs.out + logs.err
    assert "Bash was declined" in said and "permissions and allowed_tools of its agent in clew.toml" in said
    assert "--permissions" not in said


@pytest.mark.rest
@pytest.mark.parametrize("words", [(KEY,), ("boss", REPO, "4"), ("boss", "Charles/PEON", "4")])
def test_a_reset_says_whether_there_was_one(cli: Any, project: HookProject, words: tuple[str, ...]) -> None:
    cli.run("hooks", "fire", own(cli.stage.folder), "--wait")
    assert cli.run("hooks", "reset", *words, "--json").json["dropped"] is True
    again = cli.run("hooks", "reset", *words)
    assert (again.code, "there was no session" in again.out) == (0, True)
    assert cli.run("hooks", "fire", own(cli.stage.folder), "--wait", "--json").json["jobs"][0]["reason"] == "first_turn"


@pytest.mark.parametrize(
    "words", [("boss",), ("boss:charles/peon",), ("boss", REPO), ("boss", REPO, "x"), ("boss", "..", "1")]
)
def test_a_malformed_key_is_refused(cli: Any, words: tuple[str, ...]) -> None:
    done = cli.run("hooks", "reset", *words)
    assert (done.code, "is not a session key" in done.err) == (2, True)


# import-sessions


def old_file(stage: Stage, content: object) -> str:
    path = stage.folder / "sessions.json"
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.rest
def test_an_old_session_is_adopted_from_its_file_and_resumed(both: Any) -> None:
    """It was started by an older tool in another work directory."""
    HookProject(both.stage)
    elsewhere = both.stage.folder / "elsewhere"
    elsewhere.mkdir()
    session = in_the_plain_cli(both.stage, elsewhere, "The old skill: you are the boss of OMEGA.")
    gone = str(uuid.uuid4())
    file = old_file(
        both.stage,
        {
            KEY: session,
            session_key("boss", REPO, 5): {"sessionId": gone},
            "boss:charles/nowhere:1": session,
            "nobody:charles/peon:1": session,
            "no key": session,
        },
    )
    wanted = {
        KEY: "adopted",
        session_key("boss", REPO, 5): "no_file",
        "boss:charles/nowhere:1": "unknown_repo",
        "nobody:charles/peon:1": "unknown_agent",
        "no key": "no_key",
    }
    dry = both.run("hooks", "import-sessions", file, "--dry-run", "--json")
    assert (dry.code, {each["key"]: each["state"] for each in dry.json}) == (2, wanted)
    assert both.run("hooks", "sessions", "--json").json == []
    done = both.run("hooks", "import-sessions", file, "--json")
    assert (done.code, {each["key"]: each["state"] for each in done.json}) == (2, wanted)
    [listed] = both.run("hooks", "sessions", "--json").json
    assert (listed["key"], listed["session_id"], listed["state"]) == (KEY, session, "resumable")

    asked = own(both.stage.folder, kind="issue.commented", text="Go on.")
    fired = both.run("hooks", "fire", asked, "--wait", "--json")
    assert fired.code == 0, fired.err
    assert (fired.json["jobs"][0]["reason"], both.stage.launches[-1].resumes) == (None, session)
    printed = [text for role, text in both.stage.shown if role == "user"]
    assert printed[0] == "The old skill: you are the boss of OMEGA."
    assert printed[-1].startswith("DELTA issue.commented #4") and "SKILL" not in "".join(printed)


@pytest.mark.rest
def test_an_existing_session_is_kept_unless_replace_is_given(cli: Any, project: HookProject) -> None:
    cli.run("hooks", "fire", own(cli.stage.folder), "--wait")
    [mine] = cli.run("hooks", "sessions", "--json").json
    other = in_the_plain_cli(cli.stage, cli.stage.work, "Another one.")
    file = old_file(cli.stage, {"boss:Charles/Peon:4": other})
    kept = cli.run("hooks", "import-sessions", file)
    assert (kept.code, "has a session already" in kept.out) == (0, True)
    assert cli.run("hooks", "sessions", "--json").json[0]["session_id"] == mine["session_id"]
    replaced = cli.run("hooks", "import-sessions", file, "--replace")
    assert (replaced.code, f"{KEY}  adopted" in replaced.out) == (0, True)
    assert cli.run("hooks", "sessions", "--json").json[0]["session_id"] == other


@pytest.mark.parametrize("content", ["{", "[]", '"x"', ""])
def test_a_file_that_is_not_a_sessions_file_is_refused(cli: Any, project: HookProject, content: str) -> None:
    path = cli.stage.folder / "sessions.json"
    path.write_text(content)
    done = cli.run("hooks", "import-sessions", str(path))
    assert (done.code, "is not JSON" in done.err) == (2, True)


@pytest.mark.rest
def test_the_work_tree_of_a_fired_event_is_a_clean_one(cli: Any, project: HookProject) -> None:
    cli.run("hooks", "fire", own(cli.stage.folder), "--wait")
    [session] = cli.run("hooks", "sessions", "--json").json
    assert git(Path(session["work_tree"]), "status", "--porcelain") == ""
