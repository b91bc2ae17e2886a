"""The command line: one package for each group of commands. It maps errors to exit codes and has no rules of its own.

Start-up time matters. `clew --help` imports no command; a command imports asyncio, the client and rich inside its
functions, once they are needed.
"""
