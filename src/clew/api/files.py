"""Files that a surface reads and writes itself, such as those that a user names on the command line.

Paths are as users write them, a file is read without waiting for a pipe, and a file is written as a whole or not at
all.
"""

from __future__ import annotations

from clew.hosts.validation import check_prompt as check_prompt
from clew.hosts.validation import existing_dir as existing_dir
from clew.hosts.validation import named_path as named_path
from clew.hosts.validation import read_plain as read_plain
from clew.system.files import write_whole as write_whole
from clew.system.folders import make_private as make_private
