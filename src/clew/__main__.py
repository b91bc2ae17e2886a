"""`python -m clew` is `clew`."""

from clew.cli.main import entry

if __name__ == "__main__":
    entry()
