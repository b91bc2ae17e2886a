"""A thread of one agent, for tests that change its history: each turn is compared with what the model was shown."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clew.agents.adapter import Adapter
from clew.agents.claude import Claude
from clew.agents.codex import Codex
from clew.api.client import Client, Reply, Run, Thread
from clew.core import prompts
from clew.core.history import Role, Turn, Visibility
from clew.core.runs.events import TextStreamed, ToolStarted
from clew.testing.model.scripts import Request
from clew.testing.stage import CODEX_MODEL, MODEL, Stage
from clew.testing.truth import TokenModel, expected, tokens


class Scene:
    """`agent` is asked unless a turn names another one. `originals` are the session files as `keep` found them."""

    def __init__(self, stage: Stage, client: Client, thread: Thread, agent: str) -> None:
        self.stage = stage
        self.client = client
        self.thread = thread
        self.agent = agent
        self.voice = TokenModel(stage.api)
        self.originals: dict[Path, bytes] = {}

    def with_client(self, client: Client, thread: Thread) -> Scene:
        """The same scene, after Clew was restarted."""
        other = Scene(self.stage, client, thread, self.agent)
        other.voice, other.originals = self.voice, self.originals
        self.stage.api.reply = self.voice.answer
        return other

    # What is asked

    async def ask(self, words: str = "", **options: Any) -> Reply:
        """Asks one turn, which must be answered. The model is shown each visible turn once, and nothing else."""
        history, prompt = await self.thread.turns(), self.voice.prompt(words)
        run = await self.thread.ask(prompt, **options)
        return await self._answered(run, history, prompt, str(options.get("agent", self.agent)))

    async def retry(self, turn: Turn, **options: Any) -> Reply:
        history = await self.thread.turns()
        before = history[: [each.id for each in history].index(turn.id)]
        run = await self.thread.retry(turn.id, **options)
        return await self._answered(run, before, turn.text, turn.agent or self.agent)

    async def _answered(self, run: Run, history: Sequence[Turn], prompt: str, agent: str) -> Reply:
        reply = await run.reply()
        assert reply.status == "answered", reply.error
        self.check(history, prompt, agent)
        return reply

    def check(self, history: Sequence[Turn], prompt: str, agent: str | None = None) -> None:
        """Law 1 for the newest request. Turns that came in from outside are part of `history`."""
        visibility = self.thread.record.visibility
        assert self.voice.shown == expected(history, prompt, agent=agent or self.agent, visibility=visibility)

    async def stopped(self, *, kill: bool = False) -> Reply:
        """A turn that is stopped while the model speaks, or while a tool runs, and after the session has its prompt.

        Claude is stopped in the middle of its words, and Codex, which says nothing before its answer is complete, while
        it runs a command. `kill`: not by Clew, but by somebody who kills the agent.
        """
        prompt = self.voice.prompt(self.runs("touch begun; sleep 600") if self.agent == "codex" else "slowly")
        run = await self.thread.ask(prompt)
        [token] = tokens(prompt)
        async for event in run:
            if not isinstance(event, TextStreamed | ToolStarted) or not self._is_saved(token):
                continue
            if not kill:
                run.cancel()
            for pid in self.stage.processes() if kill else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        reply = await run.reply()
        assert reply.status == ("failed" if kill else "cancelled")
        return reply

    def _is_saved(self, token: str) -> bool:
        """Whether a session has the prompt as a message. Claude writes it into its queue first."""
        adapter: Adapter = Codex() if self.agent == "codex" else Claude()
        views = [adapter.read_session(path) for path in self.files()]
        return any(token in entry.text for view in views for entry in view.entries)

    # Tools, in the words of the agent

    def runs(self, *commands: str, agent: str | None = None) -> str:
        """Words for a prompt: the model runs these commands, all at once."""
        name, key = ("exec_command", "cmd") if (agent or self.agent) == "codex" else ("Bash", "command")
        return "\n" + "\n".join(f"!tool {name} {json.dumps({key: command})}" for command in commands)

    def writes(self, *names: str, agent: str | None = None) -> str:
        """Words for a prompt: the model writes these files with its own tool for that, all at once."""
        if (agent or self.agent) == "codex":
            patches = [f"*** Begin Patch\n*** Add File: {name}\n+text\n*** End Patch\n" for name in names]
            return "\n" + "\n".join(f"!tool apply_patch {json.dumps({'input': patch})}" for patch in patches)
        given = [{"file_path": str(self.stage.work / name), "content": "text"} for name in names]
        return "\n" + "\n".join(f"!tool Write {json.dumps(each)}" for each in given)

    # What there is

    async def prompts(self) -> list[Turn]:
        return [turn for turn in await self.thread.turns() if turn.role is Role.USER]

    async def answers(self) -> list[Turn]:
        return [turn for turn in await self.thread.turns() if turn.role is Role.ASSISTANT]

    def files(self) -> list[Path]:
        return self.stage.codex_files() if self.agent == "codex" else self.stage.session_files()

    def keep(self) -> None:
        self.originals = {path: path.read_bytes() for path in self.files()}

    @property
    def sections(self) -> Mapping[str, str]:
        """The sections of the newest prompt, by their titles."""
        found: dict[str, str] = {}
        title = ""
        for line in self.stage.prompt.splitlines():
            if line in (prompts.STANDING, prompts.CATCH_UP, prompts.TRANSCRIPT, prompts.WORK_DONE, prompts.MESSAGE):
                title = line
            else:
                found[title] = f"{found.get(title, '')}{line}\n"
        return found

    @property
    def told(self) -> str:
        """What the newest prompt says about the work of turns that the session does not hold."""
        return self.sections.get(prompts.WORK_DONE, "")

    @property
    def caught_up(self) -> str:
        return self.sections.get(prompts.CATCH_UP, "")

    # What must hold after a rewind

    async def assert_rewound(self, reply: Reply, to: Turn, reason: str = "history_changed") -> None:
        """The turn was asked in a copy of a session that ends with `to`, and no session that was kept has changed."""
        run = await self.client.run(reply.run)
        number = 1 + [turn.id for turn in await self.thread.turns()].index(to.id)
        assert (run.session_resumed, run.reason, run.fallback) == (True, reason, False)
        assert (run.rewound_to_turn_id, run.rewound_to, reply.rewound_to) == (to.id, number, number)
        assert [attempt.resumed for attempt in await self.client.attempts(reply.run)] == [True]
        self.assert_originals_unchanged()
        made = [path for path in self.files() if path not in self.originals]
        assert [path.stem[-36:] for path in made] == [reply.session_id], "one copy, which has the session's id"
        launch = self.stage.launches[-1]
        if self.agent == "codex":
            assert launch.resumes == reply.session_id
        else:
            assert launch.resumes in [path.stem for path in self.originals]
            assert launch.session_id == reply.session_id
            assert f"--resume-session-at={to.message_id}" in launch.argv

    async def assert_copy_of_older(self, reply: Reply) -> None:
        """The turn was asked in a copy of the whole of an older session, because the newest one cannot be used."""
        run = await self.client.run(reply.run)
        assert (run.session_resumed, run.reason, run.rewound_to) == (True, "history_changed", None)
        assert reply.session_id not in [path.stem[-36:] for path in self.originals]
        self.assert_originals_unchanged()

    async def assert_fresh(self, reply: Reply, reason: str) -> None:
        run = await self.client.run(reply.run)
        assert (run.session_resumed, run.reason, run.rewound_to, run.rewound_to_turn_id) == (False, reason, None, None)
        self.assert_originals_unchanged()

    def assert_originals_unchanged(self) -> None:
        for path, content in self.originals.items():
            assert path.read_bytes() == content, f"{path.name} is not as it was"


def begins_with(request: Request, earlier: Request) -> bool:
    """Whether the messages of a request begin with all those of an earlier one, so that the prompt cache has them."""
    before = [_without_marks(message) for message in earlier.messages]
    return [_without_marks(message) for message in request.messages[: len(before)]] == before


def _without_marks(value: Any) -> Any:
    """Without the breakpoints of the prompt cache, which move with every request."""
    if isinstance(value, Mapping):
        return {key: _without_marks(each) for key, each in value.items() if key != "cache_control"}
    return [_without_marks(each) for each in value] if isinstance(value, list | tuple) else value


@asynccontextmanager
async def scene(
    stage: Stage, agent: str = "claude", *, visibility: str = "shared", permissions: str = "all", **flags: Any
) -> AsyncIterator[Scene]:
    async with stage.open(agent=agent, model=model_of(agent), **flags) as client:
        thread = await client.thread("t", cwd=stage.work, permissions=permissions, visibility=Visibility(visibility))
        yield Scene(stage, client, thread, agent)


def model_of(agent: str) -> str:
    return CODEX_MODEL if agent == "codex" else MODEL
