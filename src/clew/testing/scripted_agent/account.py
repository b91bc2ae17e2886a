"""What a session has cost."""

from __future__ import annotations

import time

TYPE_CHECKING = False  # avoids importing typing; type checkers know the name
if TYPE_CHECKING:
    from .lines import Line

# Dollars per million tokens: input, output. A cache write costs 1.25 times the input price, a read 0.1 times.
PRICES = (("haiku", 1.0, 5.0), ("opus", 5.0, 25.0), ("", 3.0, 15.0))


class Account:
    """What the session has cost, by model, over all its processes."""

    def __init__(self) -> None:
        self.models: dict[str, Line] = {}
        self.since_last: dict[str, Line] = {}
        self.api_ms = 0.0
        self.started_ms = int(time.time() * 1000)

    def restore(self, cost_state: Line) -> None:
        self.models = {name: {**self.blank(name), **spent} for name, spent in cost_state["modelUsage"].items()}
        self.api_ms = cost_state["totalAPIDuration"]
        self.started_ms = cost_state["startTime"]

    def charge(self, model: str, usage: Line) -> None:
        tokens = {
            "inputTokens": usage.get("input_tokens") or 0,
            "outputTokens": usage.get("output_tokens") or 0,
            "cacheReadInputTokens": usage.get("cache_read_input_tokens") or 0,
            "cacheCreationInputTokens": usage.get("cache_creation_input_tokens") or 0,
        }
        price_in, price_out = next((cost_in, cost_out) for name, cost_in, cost_out in PRICES if name in model)
        shown = tokens["inputTokens"] + 1.25 * tokens["cacheCreationInputTokens"]
        shown += 0.1 * tokens["cacheReadInputTokens"]
        cost = (shown * price_in + tokens["outputTokens"] * price_out) / 1e6
        for totals in (self.models, self.since_last):
            entry = totals.setdefault(model, self.blank(model))
            for name, count in tokens.items():
                entry[name] += count
            entry["costUSD"] = round(entry["costUSD"] + cost, 10)

    @property
    def total_usd(self) -> float:
        spent: float = sum(entry["costUSD"] for entry in self.models.values())
        return round(spent, 10)

    def cost_state(self, session_id: str) -> Line:
        return {
            "type": "cost-state",
            "sessionId": session_id,
            "totalCostUSD": self.total_usd,
            "totalAPIDuration": int(self.api_ms),
            "totalDuration": int(time.time() * 1000) - self.started_ms,
            "startTime": self.started_ms,
            "modelUsage": self.models,
            "hasUnknownModelCost": False,
        }

    @staticmethod
    def blank(model: str) -> Line:
        names = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
        fixed: Line = {"webSearchRequests": 0, "costUSD": 0.0, "contextWindow": 200000, "maxOutputTokens": 32000}
        return {**dict.fromkeys(names, 0), **fixed, "canonicalModel": model, "provider": "firstParty"}
