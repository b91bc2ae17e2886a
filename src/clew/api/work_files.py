"""The files of a work directory, and the project that it belongs to. Nothing of the repository is run."""

from __future__ import annotations

from clew.git.listing import files_below as files_below
from clew.system.work_trees import project_of as project_of
