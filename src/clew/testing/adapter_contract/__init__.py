"""The contract of an agent's adapter, for ours and for yours: what the engine relies on, checked on the real binary.

    @pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
    async def test_contract(check): await check(Subject(MyAdapter(), environ, work_dir, model))

Each check starts the agent's own binary against the scripted model API, without the engine, and asserts what the
adapter makes of it. All agents run the same list. What a check asserts depends on the abilities that the adapter
declares: if the agent has an ability, that it works; if not, what the engine relies on instead.
"""

from __future__ import annotations

from clew.testing.adapter_contract import failures, sessions, tools
from clew.testing.adapter_contract.subject import (
    CLAUDE_DIRECTIVES,
    CODEX_DIRECTIVES,
    AgentDirectives,
    Check,
    ContractTurn,
    Subject,
    turn,
)

__all__ = [
    "CLAUDE_DIRECTIVES",
    "CODEX_DIRECTIVES",
    "CONTRACT",
    "AgentDirectives",
    "Check",
    "ContractTurn",
    "Subject",
    "turn",
]

CONTRACT: tuple[Check, ...] = (*sessions.CHECKS, *tools.CHECKS, *failures.CHECKS)
