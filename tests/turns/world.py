"""A thread and everything that can happen to it, one method per step: for random scripts, and for fixed ones."""

from __future__ import annotations

import json
import subprocess
import uuid

from clew.agents.claude import Claude
from clew.api.client import Client, Reply, Thread
from clew.core.history import Role, Turn, Visibility
from clew.core.runs.events import TextStreamed
from clew.testing.model.replies import Fail
from clew.testing.stage import MODEL, Stage
from clew.testing.truth import TokenModel, expected

MODELS = (MODEL, "claude-opus-4-1")
AGENTS = ("claude", "other")


class Other(Claude):
    """A second agent: the same CLI under another name, so that its turns are those of another agent."""

    name = "other"


class World:
    """Every `ask` checks law 1 on each request that reached the model."""

    def __init__(self, stage: Stage, client: Client, thread: Thread, visibility: Visibility) -> None:
        self.stage = stage
        self.client = client
        self.thread = thread
        self.visibility = visibility
        self.voice = TokenModel(stage.api)
        self.replies: list[Reply] = []

    @classmethod
    async def make(cls, stage: Stage, client: Client, visibility: Visibility) -> World:
        thread = await client.thread("t", cwd=stage.work, visibility=visibility)
        return cls(stage, client, thread, visibility)

    async def ask(
        self,
        agent: str = "claude",
        model: str = MODEL,
        *,
        words: str = "",
        fresh: bool = False,
        standing: str | None = None,
        cancel_at_text: bool = False,
        refused: Fail | None = None,
    ) -> Reply:
        """`refused`: the API refuses a history with this text, but answers a prompt without history."""
        history = await self.thread.turns()
        prompt = self.voice.prompt(words)
        seen_before = len(self.stage.api.main_requests)
        self.voice.refusing_history = refused
        run = await self.thread.ask(prompt, agent=agent, model=model, fresh_session=fresh, instructions=standing)
        if cancel_at_text:
            async for event in run:
                if isinstance(event, TextStreamed):
                    run.cancel()
        reply = await run.reply()
        self.voice.refusing_history = None
        self._check(seen_before, expected(history, prompt, agent=agent, visibility=self.visibility))
        assert [turn.text for turn in await self.thread.turns()].count(prompt) == 1, "the prompt is in the thread, once"
        self.replies.append(reply)
        return reply

    async def retry(self, turn: Turn) -> Reply:
        history = await self.thread.turns()
        before = history[: [each.id for each in history].index(turn.id)]
        seen_before = len(self.stage.api.main_requests)
        run = await self.thread.retry(turn.id)
        reply = await run.reply()
        agent = turn.agent or "claude"
        self._check(seen_before, expected(before, turn.text, agent=agent, visibility=self.visibility))
        assert not reply.session_resumed
        return reply

    def _check(self, seen_before: int, truth: list[str]) -> None:
        for request in self.stage.api.main_requests[seen_before:]:
            assert self.voice.tokens_of(request) == truth

    async def user_turns(self) -> list[Turn]:
        return [turn for turn in await self.thread.turns() if turn.role is Role.USER]

    async def edit(self, turn: Turn) -> None:
        await self.thread.edit(turn.id, self.voice.prompt("edited"))

    async def truncate(self, turn: Turn) -> None:
        await self.thread.truncate(turn.id)

    def delete_session(self, choice: int) -> None:
        files = self.stage.session_files()
        if files:
            files[choice % len(files)].unlink()

    def use_plain_cli(self, choice: int) -> None:
        """Continues one of the sessions outside Clew."""
        files = self.stage.session_files()
        if not files:
            return
        path = files[choice % len(files)]
        prompt = self.voice.outside_prompt()
        line = json.dumps({"type": "user", "message": {"role": "user", "content": prompt}, "uuid": str(uuid.uuid4())})
        argv = [str(self.stage.binary), "-p", "--output-format", "stream-json", "--verbose"]
        argv += ["--input-format", "stream-json", "--model", MODEL, f"--resume={path.stem}"]
        subprocess.run(
            argv, input=line + "\n", env=self.stage.environ, cwd=self.stage.work, text=True, timeout=60,
            capture_output=True, check=False,
        )  # fmt: skip
