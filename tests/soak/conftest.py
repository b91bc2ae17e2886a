"""The daemon's fixture is the server tests' own."""

from __future__ import annotations

from server.conftest import start_daemon as start_daemon
