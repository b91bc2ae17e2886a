"""The contract of an agent's adapter, for ours and for whoever writes one: what the engine relies on, checked for real.

    @pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
    async def test_contract(check): await check(Subject(MyAdapter(), environ, work_dir, model))

Each check starts the agent's own binary against the scripted model API, without the engine, and asserts what the
adapter makes of it. All agents run the same list. What a check asserts follows from the abilities that the adapter
declares: where an agent has one, that it works; where it has not, what the engine does without.
"""

from __future__ import annotations

from clew.testing.adapter_contract import failures, sessions, tools
from clew.testing.adapter_contract.subject import CLAUDE_WORDS, CODEX_WORDS, Check, Subject, Turn, Words, turn

__all__ = ["CLAUDE_WORDS", "CODEX_WORDS", "CONTRACT", "Check", "Subject", "Turn", "Words", "turn"]

CONTRACT: tuple[Check, ...] = (*sessions.CHECKS, *tools.CHECKS, *failures.CHECKS)
