"""`python -m clew.cli` is `clew`."""

import sys

from clew.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
