"""`load` imports what most commands need, for a process that is forked to carry one out."""

from __future__ import annotations

from clew.wiring.preloading import load as load
