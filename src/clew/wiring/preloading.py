"""Imports the modules with which the engine and its hosts carry out a turn, a review and a pair.

For the process that is forked for each command (ADR 62): what it has to import itself, each command waits for.
"""

from __future__ import annotations

import importlib
import pkgutil

PACKAGES = (
    *(
        "clew.core",
        "clew.config",
        "clew.system",
        "clew.git",
        "clew.store",
        "clew.engine.finish",
        "clew.engine.planning",
    ),
    *("clew.engine.process", "clew.engine.rules", "clew.engine.sessions", "clew.engine.storage", "clew.engine.warm"),
    *("clew.agents.claude", "clew.agents.codex", "clew.api.wire"),
    *("clew.hosts.chat", "clew.hosts.expansion", "clew.hosts.pairs", "clew.hosts.reviews"),
)
MODULES = (
    *(
        "clew.api.client",
        "clew.api.daemons",
        "clew.api.files",
        "clew.api.pairs",
        "clew.api.reviews",
        "clew.api.settings",
    ),
    *("clew.wiring.engine", "clew.wiring.hosts", "sqlite3", "tomllib", "unicodedata"),
)
NOT_LOADED = (  # a program, and what only another database needs
    *("clew.engine.process.launcher", "clew.store.database.postgres", "clew.store.database.postgres_connection"),
)


def load() -> None:
    for name in MODULES:
        importlib.import_module(name)
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}."):
            if module.name not in NOT_LOADED:
                importlib.import_module(module.name)
    from clew.store.database import sql

    sql.own_queries("named")
