"""Prints the OpenAPI document: `python -m clew.server.reference`; with `--types`, only what the page's types need.

`make wire` makes src/clew/web/page/daemon/openapi.ts of it, and `make check` fails while that file is stale.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from fastapi import FastAPI

from clew.server.app import api_routers
from clew.server.models import openapi


def document() -> dict[str, Any]:
    """The document that a daemon serves; no store is opened."""
    api = FastAPI()
    for router in api_routers():
        api.include_router(router)
    return openapi.document(api.routes)


def types() -> dict[str, Any]:
    """Its schemas, without the titles that only repeat the names of fields."""
    whole = document()
    schemas = _without_titles(whole["components"]["schemas"])
    return {"openapi": whole["openapi"], "info": whole["info"], "paths": {}, "components": {"schemas": schemas}}


def _without_titles(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_titles(each) for key, each in value.items() if key != "title" or not isinstance(each, str)
        }
    return [_without_titles(each) for each in value] if isinstance(value, list) else value


def main() -> int:
    json.dump(types() if "--types" in sys.argv[1:] else document(), sys.stdout, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
