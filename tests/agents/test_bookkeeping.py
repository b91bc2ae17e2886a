"""Which lines an agent may add to a session's file without a prompt: a closed list for each agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.agents.claude import Claude
from clew.agents.codex import Codex

BEFORE = b'{"type":"user","uuid":"u1"}\n'
LEAF = '{"type":"last-prompt","lastPrompt":"hi","leafUuid":"u1","sessionId":"s"}'
CASES = {
    "nothing": (Claude, "", True),
    "claude's end": (
        Claude,
        '{"type":"cost-state","sessionId":"s","totalCostUSD":0.1}\n{"type":"mode","mode":"normal"}\n',
        True,
    ),
    "the same end": (Claude, LEAF, True),
    "another end": (Claude, LEAF.replace("u1", "u0"), False),
    "another mode": (Claude, '{"type":"mode","mode":"plan"}', False),
    "an entry": (Claude, '{"type":"cost-state","uuid":"u2"}', False),
    "a key twice": (Claude, '{"type":"user","type":"cost-state"}', False),
    "an unknown kind": (Claude, '{"type":"agent-setting","agentSetting":"x"}', False),
    "not json": (Claude, '{"type":"cost-state"', False),
    "an array": (Claude, '[["type","cost-state"]]', False),
    "one of several": (Claude, f'{LEAF}\n{{"type":"user","uuid":"u2"}}\n{LEAF}', False),
    "codex's count": (Codex, '{"type":"event_msg","payload":{"type":"token_count"}}', True),
    "codex's record": (Codex, '{"type":"token_usage_record","payload":{}}', True),
    "codex's event": (Codex, '{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}', False),
    "codex's item": (Codex, '{"type":"response_item","payload":{"type":"message"}}', False),
    "codex's summary": (Codex, '{"type":"compacted","payload":{"message":"x"}}', False),
    "codex's second head": (Codex, '{"type":"session_meta","payload":{}}', False),
    "codex's key twice": (Codex, '{"type":"compacted","payload":{},"type":"token_usage_record"}', False),
}


@pytest.mark.parametrize("case", CASES)
def test_closed_list(tmp_path: Path, case: str) -> None:
    agent, added, only = CASES[case]
    path = tmp_path / "session.jsonl"
    path.write_bytes(BEFORE + added.encode())
    assert agent().only_bookkeeping(path, len(BEFORE), "u1") is only
