"""Agents of this machine, without a store. With one, `client.views.agents` says more, and whether they work."""

from __future__ import annotations

from collections.abc import Mapping

from clew.agents.adapter import Binary as Binary
from clew.wiring.engine import Adapters


def find_agent(name: str, path: str | None, environ: Mapping[str, str]) -> Binary:
    """Where the agent's CLI is: at `path` if one is given, else where Clew finds it. Raises AgentMissing."""
    return Adapters()[name].find(path, environ)
