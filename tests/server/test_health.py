"""A store that answers other queries meanwhile is busy, not unreachable."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.errors import StoreError
from clew.server.health import HealthCheck, HealthStatus


class Client:
    """A client whose store does not answer the health check."""

    def __init__(self, *answered: int) -> None:
        self._answered = list(answered)  # one value for each read

    @property
    def store_answered(self) -> int:
        return self._answered.pop(0)

    async def ping(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("answered", "status"),
    [((7, 9), HealthStatus(is_busy=True)), ((7, 7), HealthStatus("The store does not answer."))],
)
async def test_a_store_that_answers_others_is_busy(answered: tuple[int, int], status: HealthStatus) -> None:
    client: Any = Client(*answered)
    assert await HealthCheck(client, answer_s=0).status() == status


async def test_a_store_that_fails_is_not_busy() -> None:
    class Failing(Client):
        async def ping(self) -> None:
            raise StoreError("gone", kind="unreachable")

    client: Any = Failing(7, 9)
    assert await HealthCheck(client).status() == HealthStatus("The store cannot be used: it is unreachable.")
