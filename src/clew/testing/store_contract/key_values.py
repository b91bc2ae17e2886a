"""Key values and probes: the newest value is the one that is read."""

from __future__ import annotations

from clew.store.store import Store


class KeyValueContract:
    def test_a_probe_is_valid_while_the_stamp_is_the_same(self, store: Store) -> None:
        assert store.key_values.probe("/bin/claude", "v1") is None
        store.key_values.save_probe("/bin/claude", "v1", "one", 1.0)
        store.key_values.save_probe("/bin/codex", "v1", "other", 1.0)
        assert (
            store.key_values.probe("/bin/claude", "v1") == "one" and store.key_values.probe("/bin/claude", "v2") is None
        )
        store.key_values.save_probe("/bin/claude", "v2", "two", 2.0)
        assert (
            store.key_values.probe("/bin/claude", "v2") == "two" and store.key_values.probe("/bin/claude", "v1") is None
        )

    def test_a_value_is_replaced(self, store: Store) -> None:
        assert store.key_values.get("default_model/claude") is None
        store.key_values.set("default_model/claude", "opus")
        store.key_values.set("default_model/claude", "sonnet")
        assert store.key_values.get("default_model/claude") == "sonnet"
