"""The command line: one module for each command. It maps errors to exit codes and has no rules of its own.

Start-up time matters. `clew --help` imports no command; a command imports asyncio, the client and rich inside its
functions, once they are needed.
"""
