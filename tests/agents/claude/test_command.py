"""The exact launch profile, and the input lines."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.agents.adapter import Binary, LaunchProfile
from clew.agents.claude import Claude
from clew.core.decision import Abilities
from clew.core.record import replace
from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import Answer
from clew.core.thread import Permissions, Trust
from clew.errors import UsageError

BINARY = Binary("/opt/claude", "PATH")
FLAGS = frozenset({"--resume", "--session-id", "--include-partial-messages", "--setting-sources"})
ABLE = Abilities(resume=True, choose_id=True, flags=FLAGS)
SID = "90fa6908-7f75-4fb0-b510-fd3912fe8d11"
FIXED = [
    "/opt/claude",
    "-p",
    "--output-format",
    "stream-json",
    "--verbose",
    "--input-format",
    "stream-json",
    "--include-partial-messages",
    "--permission-prompt-tool",
    "stdio",
]
PERMISSIONS: dict[Permissions, list[str]] = {
    Permissions.ASK: ["--permission-mode", "default"],
    Permissions.EDITS: ["--permission-mode", "acceptEdits"],
    Permissions.READ_ONLY: [
        "--permission-mode",
        "default",
        "--tools",
        "Read,Glob,Grep,AskUserQuestion",
        "--strict-mcp-config",
    ],
    Permissions.ALL: ["--permission-mode", "default"],
}
TRUST = {
    Trust.USER: ["--setting-sources", "user"],
    Trust.PROJECT: ["--setting-sources", "user,project,local"],
}

claude = Claude()


def argv(abilities: Abilities = ABLE, **changes: Any) -> list[str]:
    launch = LaunchProfile(SID, resume=False, model="m1", permissions=Permissions.ASK, trust=Trust.USER)
    return claude.command(BINARY, abilities, replace(launch, **changes))


class TestCommand:
    @pytest.mark.parametrize(
        ("permissions", "trust", "resume", "model"), list(product(Permissions, Trust, [True, False], ["m1", None]))
    )
    def test_the_profile_differs_only_in_the_session(
        self, permissions: Permissions, trust: Trust, resume: bool, model: str | None
    ) -> None:
        expected = [
            *FIXED,
            *(["--model", model] if model else []),
            *PERMISSIONS[permissions],
            *TRUST[trust],
            *([f"--resume={SID}"] if resume else ["--session-id", SID]),
        ]
        found = argv(permissions=permissions, trust=trust, resume=resume, model=model)
        joined = " ".join(found)
        assert joined == " ".join(expected)

    def test_hidden_paths_are_denied_to_the_tools_that_read(self, tmp_path: Path) -> None:
        able = replace(ABLE, flags=ABLE.flags | {"--settings"})
        words = argv(able, hidden_paths=("/a b/[c]", "/d"), permissions=Permissions.READ_ONLY)
        settings = json.loads(words[words.index("--settings") + 1])
        rules = ["Read(//a b/\\[c\\])", "Read(//a b/\\[c\\]/**)", "Read(//d)", "Read(//d/**)"]
        assert settings == {"includeGitInstructions": False, "permissions": {"deny": rules}}
        assert "--settings" not in argv(able) and "--settings" not in argv(hidden_paths=("/d",))
        for name in ("clew.db", "worktrees"):
            (tmp_path / name).mkdir()
        words = argv(able, hidden_paths=(str(tmp_path),), work_dir=f"{tmp_path}/worktrees/one")
        settings = json.loads(words[words.index("--settings") + 1])
        assert settings == {"permissions": {"deny": [f"Read(/{tmp_path}/clew.db)", f"Read(/{tmp_path}/clew.db/**)"]}}

    def test_a_resumed_id_is_never_an_argument_of_its_own(self) -> None:
        evil = "--dangerously-skip-permissions"
        found = argv(resume=True, session_id=evil)
        assert found[-1] == f"--resume={evil}"
        assert evil not in found
        assert "--session-id" not in found

    def test_an_agent_that_does_not_accept_an_id_gets_none(self) -> None:
        found = argv(replace(ABLE, choose_id=False))
        assert SID not in " ".join(found)

    def test_partial_messages_are_requested_only_if_supported(self) -> None:
        without = argv(replace(ABLE, flags=FLAGS - {"--include-partial-messages"}))
        assert without == [each for each in argv() if each != "--include-partial-messages"]

    def test_without_setting_sources_an_untrusted_directory_is_refused(self) -> None:
        old = replace(ABLE, flags=FLAGS - {"--setting-sources"})
        with pytest.raises(UsageError) as refused:
            argv(old)
        assert "--trust project" in (refused.value.hint or "")
        assert "--setting-sources" not in argv(old, trust=Trust.PROJECT)

    @pytest.mark.parametrize("permissions", Permissions)
    def test_no_profile_skips_the_permission_prompts(self, permissions: Permissions) -> None:
        found = " ".join(argv(permissions=permissions))
        assert "skip-permissions" not in found
        assert "bypass" not in found
        assert "--continue" not in found


class TestEnvironment:
    def test_variables_of_another_session_are_removed_and_the_rest_is_kept(self) -> None:
        given_environment = {
            "HOME": "/home/me",
            "ANTHROPIC_API_KEY": "k",
            "CLAUDE_CONFIG_DIR": "/c",
            "CLAUDECODE": "1",
            "CLAUDE_CODE_ENTRYPOINT": "cli",
            "CLAUDE_CODE_SSE_PORT": "1",
            "CLAUDE_CODE_SESSION_ID": "s",
        }
        before = dict(given_environment)
        kept = claude.environment(given_environment)
        own = {"CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1"}
        assert kept == {"HOME": "/home/me", "ANTHROPIC_API_KEY": "k", "CLAUDE_CONFIG_DIR": "/c", **own}
        assert given_environment == before

    @pytest.mark.parametrize(
        ("environ", "folder"),
        [
            ({"HOME": "/home/me"}, "/home/me/.claude"),
            ({"HOME": "/home/me", "CLAUDE_CONFIG_DIR": "/c"}, "/c"),
            ({"HOME": "/home/me", "CLAUDE_CONFIG_DIR": ""}, "/home/me/.claude"),
        ],
    )
    def test_config_dir(self, environ: dict[str, str], folder: str) -> None:
        assert claude.config_dir(environ) == folder


TEXTS = st.text(st.characters(codec=None), max_size=50) | st.sampled_from(
    ["\ud800", "a\nb\r\nc", "\x00", "\u2028\u2029\x85", '"}\n{"type":"user"}', ""]
)


class TestLines:
    @given(TEXTS)
    def test_a_prompt_is_one_line_and_is_not_changed(self, text: str) -> None:
        raw = claude.prompt_line(text, "uuid-1")
        assert raw.endswith(b"\n")
        assert raw.count(b"\n") == 1
        assert len(raw.decode("utf-8").splitlines()) == 1
        assert json.loads(raw) == {
            "type": "user",
            "message": {"role": "user", "content": f" {text}" if text.startswith("/") else text},
            "uuid": "uuid-1",
        }

    def test_a_prompt_that_begins_with_a_slash_is_not_a_command_of_the_cli(self) -> None:
        assert json.loads(claude.prompt_line("/clear", "u"))["message"]["content"] == " /clear"

    ASKED = QuestionAsked("q1", "Bash", {"command": "ls"}, is_form=False)

    def response(self, question: QuestionAsked, answer: Answer) -> dict[str, Any]:
        raw = claude.answer_line(question, answer)
        assert raw.count(b"\n") == 1
        value = json.loads(raw)
        assert value["type"] == "control_response"
        assert (value["response"]["subtype"], value["response"]["request_id"]) == ("success", question.question_id)
        return dict(value["response"]["response"])

    def test_an_allowed_tool_gets_its_input_back(self) -> None:
        assert self.response(self.ASKED, Answer(allow=True)) == {
            "behavior": "allow",
            "updatedInput": {"command": "ls"},
        }

    @pytest.mark.parametrize(("message", "sent"), [("not now", "not now"), ("", "The user declined.")])
    def test_a_refusal_says_why(self, message: str, sent: str) -> None:
        assert self.response(self.ASKED, Answer(allow=False, message=message)) == {"behavior": "deny", "message": sent}

    def test_an_answered_form_carries_questions_and_answers(self) -> None:
        questions = [{"question": "Which database?", "options": [{"label": "Postgres"}]}]
        form = QuestionAsked("q2", "AskUserQuestion", {"questions": questions}, is_form=True)
        answer = Answer(allow=True, answers={"Which database?": "Postgres"})
        assert self.response(form, answer) == {
            "behavior": "allow",
            "updatedInput": {"questions": questions, "answers": {"Which database?": "Postgres"}},
        }
        assert form.input == {"questions": questions}

    def test_the_interrupt_is_a_control_request(self) -> None:
        raw = claude.interrupt_line()
        assert raw is not None
        assert raw.count(b"\n") == 1
        assert json.loads(raw)["request"] == {"subtype": "interrupt"}
