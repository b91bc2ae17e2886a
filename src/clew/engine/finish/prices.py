"""The last known price of an agent's model, for tokens whose cost the agent does not report.

A message that was cut off is in none of the agent's totals, but was charged. So the price of a unit (see
`core/costs/usage`) is taken from complete runs. For an agent that reports no cost, there is no price, and the cost
stays unknown.
"""

from __future__ import annotations

import math

from clew.core.costs.usage import Usage
from clew.store.store import Store


def keep_price(store: Store, agent: str, model: str | None, usage: Usage, cost_usd: float) -> None:
    """Stores the unit price of a run whose whole cost is known."""
    if not model or cost_usd <= 0 or usage.units <= 0:
        return
    price, known = cost_usd / usage.units, store.key_values.peek(_key(agent, model))
    if known is None or not math.isclose(float(known), price, rel_tol=1e-6):  # avoids a write after every run
        store.key_values.set(_key(agent, model), repr(price))


def price(store: Store, agent: str, model: str | None, usage: Usage) -> float:
    """The cost in dollars; 0 if no price is known."""
    each = unit_price(store, agent, model) if usage.units else None
    return each * usage.units if each is not None else 0.0


def unit_price(store: Store, agent: str, model: str | None) -> float | None:
    """The last known price of a unit in dollars. None: no complete run has reported one."""
    known = store.key_values.get(_key(agent, model)) if model else None
    return float(known) if known else None


def _key(agent: str, model: str) -> str:
    return f"unit_price/{agent}/{model}"
