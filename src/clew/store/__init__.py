"""The database: schema, migrations, queries. SQLite and PostgreSQL share most of the SQL."""

from clew.core.costs.usage import StatRow
from clew.store.records import Lease, Revision, StoredEvent, StoredTurn
from clew.store.store import Store, open_store

__all__ = ["Lease", "Revision", "StatRow", "Store", "StoredEvent", "StoredTurn", "open_store"]
