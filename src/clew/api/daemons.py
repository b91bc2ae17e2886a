"""The daemons (`clew serve`) that serve a home: `running_daemons` lists them, `registered` makes this process one."""

from __future__ import annotations

from clew.system.daemon_registry import RunningDaemon as RunningDaemon
from clew.system.daemon_registry import registered as registered
from clew.system.daemon_registry import running_daemons as running_daemons
