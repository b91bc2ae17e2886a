"""A test oracle for law 1: it compares what the model was shown with what the thread says.

Every turn of a test contains a unique token (`u7z` in a prompt, `a8z` in an answer). Law 1 holds when the tokens in the
model's newest request are those of the thread's visible history, in order and each exactly once, followed by the new
prompt's.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clew.core.history import Turn, Visibility, visible
from clew.testing.model.api import ModelApi
from clew.testing.model.scripts import Fail, Reply, Request, Slow, Text, newest_tool_result, newest_user_text

_TOKEN = re.compile(r"\b[uaf]\d+z\b")


def tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def saved_tokens(path: Path) -> frozenset[str]:
    """The tokens of all messages in the file of a Claude session, whether or not they are on its active chain."""
    if not path.exists():
        return frozenset()
    lines = (json.loads(line) for line in path.read_bytes().splitlines())
    messages = (line["message"]["content"] for line in lines if line["type"] in ("user", "assistant"))
    return frozenset(token for content in messages for text in _texts(content) for token in tokens(text))


def _texts(content: str | list[dict[str, Any]]) -> list[str]:
    return [content] if isinstance(content, str) else [block.get("text", "") for block in content]


class TokenModel:
    """A model that answers every plain prompt with a unique token, and leaves directives (`!…`) to the API.

    A prompt with the word `slowly` is answered word by word, so that there is time to kill a process.
    """

    def __init__(self, api: ModelApi) -> None:
        self.count = itertools.count(1)
        self.api = api
        self.refusing_history: Fail | None = None  # the refusal of every request with an earlier answer
        api.reply = self.answer

    def prompt(self, words: str = "") -> str:
        """A new prompt's text, with its token."""
        return f"u{next(self.count)}z {words}".strip()

    def answer(self, request: Request) -> Reply | None:
        if self.refusing_history is not None and any(each.get("role") == "assistant" for each in request.messages):
            return self.refusing_history
        if request.is_compaction:  # a summary has no token, because it is not a turn of the thread
            return None
        said = newest_user_text(request.messages)
        if newest_tool_result(request.messages) is None and any(line.startswith("!") for line in said.splitlines()):
            return None
        token = f"a{next(self.count)}z"
        if "slowly" in said:
            return Slow(f"{token} one two three four five six seven eight nine ten", words_per_s=20)
        return Text(token)

    def outside_prompt(self) -> str:
        """A prompt that is sent outside Clew."""
        return f"f{next(self.count)}z"

    @property
    def shown(self) -> list[str]:
        """The tokens in the newest request of a conversation, in order."""
        return self.tokens_of(self.api.main_requests[-1])

    @staticmethod
    def tokens_of(request: Request) -> list[str]:
        return [token for _, text in request.shown_texts() for token in tokens(text)]


def expected(
    history: Iterable[Turn], prompt: str, *, agent: str = "claude", visibility: Visibility = Visibility.SHARED
) -> list[str]:
    """The tokens that the request must contain: those of the visible history before the prompt, then the prompt's."""
    seen = visible(tuple(history), agent, visibility)
    return [token for turn in seen for token in tokens(turn.text)] + tokens(prompt)
