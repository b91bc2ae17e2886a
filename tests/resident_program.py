"""The fork server of a daemon, without the daemon: what is on the other end of its stdin stands for that."""

from __future__ import annotations

import os
import socket

from clew.cli.daemon import fork_server, forked_command

if __name__ == "__main__":
    daemon = socket.socket(fileno=os.dup(0))
    daemon.setblocking(False)
    fork_server.Listener(daemon, forked_command.load()).run()
