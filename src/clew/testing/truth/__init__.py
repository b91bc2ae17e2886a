"""Test oracles for laws 1 and 3: was the model shown what the thread says, and was a session resumed whenever it may?

| module   | what it is                                                                                            |
| -------- | ----------------------------------------------------------------------------------------------------- |
| `tokens` | `TokenModel`, `expected`: every turn has a token, so that a request shows what the model was shown     |
| `ledger` | `Ledger`: keeps by itself what each session holds, and says which asks law 3 allows to resume           |
"""

from __future__ import annotations

from clew.testing.truth.ledger import Ask, Ledger, Source
from clew.testing.truth.tokens import TokenModel, expected, saved_tokens, tokens

__all__ = ["Ask", "Ledger", "Source", "TokenModel", "expected", "saved_tokens", "tokens"]
