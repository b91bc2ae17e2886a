"""The page that `clew serve` serves: its sources, and the folder that `make web` builds them into."""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).parent / "static"
