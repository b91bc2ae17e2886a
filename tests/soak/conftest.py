"""The fixture of the daemon comes from the tests of the server."""

from __future__ import annotations

from server.conftest import start_daemon as start_daemon
