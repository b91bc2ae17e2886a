"""Files and directories that a user names, the project of a directory, and files that only their owner can read.

`named_path`, `existing_dir` and `check_prompt` raise UsageError with a text for the user; `read_plain`, `write_whole`
and `make_private` raise OSError.
"""

from __future__ import annotations

from clew.hosts.validation import check_prompt as check_prompt
from clew.hosts.validation import existing_dir as existing_dir
from clew.hosts.validation import named_path as named_path
from clew.hosts.validation import read_plain as read_plain
from clew.system.files import write_whole as write_whole
from clew.system.folders import make_private as make_private
from clew.system.work_trees import project_of as project_of
