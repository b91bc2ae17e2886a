"""What an agent's model was last seen to cost, for tokens that the agent itself puts no price on.

A message that was cut off is in none of its totals, and was paid for all the same. The price of a unit (see core/usage)
is taken from whole runs; an agent that reports no prices has none, and what it costs stays unknown.
"""

from __future__ import annotations

import math

from clew.core.costs.usage import Usage
from clew.store.store import Store


def keep_price(store: Store, agent: str, model: str | None, usage: Usage, cost_usd: float) -> None:
    """Of a run whose cost is known in full."""
    if not model or cost_usd <= 0 or usage.units <= 0:
        return
    price, known = cost_usd / usage.units, store.key_values.peek(_fact(agent, model))
    if known is None or not math.isclose(float(known), price, rel_tol=1e-6):  # all runs of the model write it
        store.key_values.set(_fact(agent, model), repr(price))


def price(store: Store, agent: str, model: str | None, usage: Usage) -> float:
    """In dollars; 0: not known."""
    known = store.key_values.get(_fact(agent, model)) if model and usage.units else None
    return float(known) * usage.units if known else 0.0


def _fact(agent: str, model: str) -> str:
    return f"unit_price/{agent}/{model}"
