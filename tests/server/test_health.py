"""Busy is not gone: a store that answers others meanwhile is there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.errors import StoreError
from clew.server.health import Condition, Health


class Client:
    """Its store does not come to the question about its health."""

    def __init__(self, *answered: int) -> None:
        self._answered = list(answered)  # as often as it is looked at

    @property
    def store_answered(self) -> int:
        return self._answered.pop(0)

    async def ping(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("answered", "condition"),
    [((7, 9), Condition(is_busy=True)), ((7, 7), Condition("The store does not answer."))],
)
async def test_a_store_that_answers_others_is_busy(answered: tuple[int, int], condition: Condition) -> None:
    client: Any = Client(*answered)
    assert await Health(client, answer_s=0).condition() == condition


async def test_a_store_that_fails_is_not_busy() -> None:
    class Failing(Client):
        async def ping(self) -> None:
            raise StoreError("gone", kind="unreachable")

    client: Any = Failing(7, 9)
    assert await Health(client).condition() == Condition("The store cannot be used: it is unreachable.")
