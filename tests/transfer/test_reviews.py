"""An export contains the files that a reviewer was shown, so they are scanned for secrets, too."""

from __future__ import annotations

import pytest

from clew.errors import UsageError
from clew.hosts.transfer.export import export_thread
from clew.store.store import Store
from clew.testing.stage import Stage
from clew.testing.store_contract.reviews import DAY, a_review, a_round
from clew.testing.store_contract.samples import a_thread

SECRETS = {"SHOWN_TOKEN": "shown-8f3a-9b2c-7d1e", "FILED_TOKEN": "filed-1c2d-3e4f-5a6b"}


async def test_a_secret_in_reviewed_files_stops_the_export(scripted: Stage) -> None:
    def make(store: Store) -> None:
        store.threads.create(a_thread("thread-1", "reviewed", kind="review"))
        store.reviews.create(a_review(), DAY)
        files = {".env": f"FILED={SECRETS['FILED_TOKEN']}\n".encode()}
        store.reviews.add_round(a_round(), diff=f"+SHOWN={SECRETS['SHOWN_TOKEN']}\n", files=files)

    async with scripted.open() as client:
        await client.engine.store.call(make)
        for name, value in SECRETS.items():
            with pytest.raises(UsageError, match=f"{name} \\(reviews\\)"):
                await export_thread(client.engine, "reviewed", {name: value})
        assert (await export_thread(client.engine, "reviewed", {"OTHER_TOKEN": "other-0a0b-1c1d"})).content
        assert (await export_thread(client.engine, "reviewed", SECRETS, with_secrets=True)).content
        assert (await export_thread(client.engine, "reviewed", SECRETS, redacted=True)).content
