"""The command line: one module a command. It maps errors to exit codes and has no rules of its own.

Start-up time is a feature here. `clew --help` imports no command; a command imports asyncio, the client and rich inside
its functions, when it is known that they are needed.
"""
