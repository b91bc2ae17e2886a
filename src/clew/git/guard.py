"""Which commands a repository's own git settings name, and the settings that switch them off.

`.git/config` comes from the person who made the folder: an unpacked archive can contain one. Git runs the commands that
it names (filters, a file-system monitor, hooks, diff and merge drivers, ssh commands …) as soon as a program asks for
the state of the tree, and agents do that outside of their sandbox. So each of the repository's settings (local,
worktree, and what they include) that names a command is overridden by a later one: the value from the user's or the
machine's settings, or else a value that runs nothing of the repository's. The names of filters and drivers are chosen
by the repository, so its settings are read first; reading them runs nothing.

The overrides are passed in `GIT_CONFIG_PARAMETERS`, as those of `git -c` are, and not in `GIT_CONFIG_KEY_0` and so on:
Codex can be configured to keep variables with KEY in their name from its tools, and git fails when it gets the count
without the keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from clew.core.record import Record
from clew.errors import UsageError

VARIABLE = "GIT_CONFIG_PARAMETERS"
MAX_BYTES = 100_000  # the variable's maximum size; Linux starts no program with a variable above 128 KiB

# Git's own diff and merge as commands: these settings have no value that means "none".
PLAIN_DIFF = 'f() { git diff --no-index --no-ext-diff --no-textconv -- "$2" "$5" || :; }; f'
PLAIN_MERGE = "git merge-file -q --marker-size=%L %A %O %B"

_REPOSITORY = ("local", "worktree")
# By the setting's name as git prints it. An empty value switches the command off, or fails without running anything.
_REPLACEMENTS = (
    (r"filter\..*\.(clean|smudge|process)", ""),
    (r"filter\..*\.required", "false"),
    (r"core\.fsmonitor", "false"),
    (r"hook\..*\.command", "true"),
    (r"diff\.external|diff\..*\.command", PLAIN_DIFF),
    (r"diff\..*\.textconv", "cat"),
    (r"merge\..*\.driver", PLAIN_MERGE),
    (r"core\.sshcommand", "ssh"),
    (r"core\.pager|interactive\.difffilter|lfs\.extension\..*\.(clean|smudge)", "cat"),
    (r"pager\..*", "false"),
    (r"(core|sequence)\.editor", ":"),
    (r"gpg\.program|gpg\.openpgp\.program", "gpg"),
    (r"gpg\.x509\.program", "gpgsm"),
    (r"gpg\.ssh\.program", "ssh-keygen"),
    (r"gpg\.ssh\.defaultkeycommand", "false"),
    (r"protocol\.(https?|git|ssh)\.allow", "always"),
    (r"protocol\.ext\.allow", "never"),
    (r"protocol\.(.*\.)?allow", "user"),
    (r"trailer\..*\.(command|cmd)|core\.alternaterefscommand", "true"),
    (r"tar\..*\.command", "gzip -cn"),
    (r"submodule\..*\.update", "checkout"),
    (r"core\.askpass|alias\..*|remote\..*\.vcs|imap\.tunnel|instaweb\.httpd|svn\.authorsprog", ""),
    (r"(man|browser|difftool|mergetool|guitool)\..*\.(cmd|path)|lfs\.customtransfer\..*\.path", ""),
    (r"sendemail\.(.*\.)?(sendmailcmd|tocmd|cccmd|headercmd|smtpserver)", ""),
)
_LOCAL_PACK = r"remote\..*\.(upload|receive)pack"
_HELPER = r"credential\.(.*\.)?helper"


class GitSetting(Record):
    """One entry of `git config --list --show-scope`."""

    scope: str  # system, global, local, worktree, command
    name: str
    value: str


def parse_settings(listed: bytes) -> list[GitSetting]:
    """Reads the output of `git config --list --show-scope -z`."""
    words = [os.fsdecode(word) for word in listed.split(b"\0")[:-1]]
    found = []
    for scope, setting in zip(words[::2], words[1::2], strict=True):
        name, equals, value = setting.partition("\n")
        found.append(GitSetting(scope, name, value if equals else "true"))
    return found


def overrides(found: Sequence[GitSetting]) -> list[tuple[str, str]]:
    """The settings that, added last, leave only the user's own commands: names and values, in order."""
    own = {entry.name: entry.value for entry in found if entry.scope not in _REPOSITORY}
    theirs = {entry.name: entry.value for entry in found if entry.scope in _REPOSITORY}
    # This override is always added: the files in .git/hooks run without any setting that names them.
    added = [("core.hooksPath", own.get("core.hookspath", os.devnull))]
    for name, value in theirs.items():
        instead = _replacement(name, value)
        if instead is not None:
            added.append((name, own.get(name, instead)))
    if helpers := [name for name in theirs if _matches(_HELPER, name)]:  # these are a list, which an empty value resets
        added += [(name, "") for name in helpers]
        added += [(e.name, e.value) for e in found if _matches(_HELPER, e.name) and e.scope not in _REPOSITORY]
    if "protocol.allow" in theirs and "protocol.ext.allow" not in theirs:
        added.append(("protocol.ext.allow", own.get("protocol.ext.allow", "never")))
    if any(
        _matches(_LOCAL_PACK, name) for name in theirs
    ):  # git uses the first value, so local remotes are forbidden instead
        added.append(("protocol.file.allow", "never"))
    if "gc.recentobjectshook" in theirs:  # a list that cannot be reset, so automatic packing is off
        added += [("gc.auto", "0"), ("maintenance.auto", "false")]
    return list(dict.fromkeys(added))


def _replacement(name: str, value: str) -> str | None:
    """The value that replaces the repository's; None: the setting names no command."""
    if name.startswith("submodule.") and not value.startswith("!"):
        return None
    return next((instead for pattern, instead in _REPLACEMENTS if _matches(pattern, name)), None)


def _matches(pattern: str, name: str) -> bool:
    """Every pattern spells the sections out that it is about, so most of them need not be compiled."""
    return name.partition(".")[0] in pattern and _compiled(pattern).fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


def environment(found: Iterable[Sequence[GitSetting]], environ: Mapping[str, str]) -> dict[str, str]:
    """What to add to `environ`. `found`: the settings of the repository, and of each submodule.

    Raises UsageError when the overrides are too long for an environment variable.
    """
    listed = list(found)
    # The repository's own overrides come last: a submodule may name a driver that the user has defined elsewhere.
    added = dict.fromkeys(pair for settings in reversed(listed) for pair in overrides(settings))
    words = [environ[VARIABLE]] if environ.get(VARIABLE) else []
    words += [_quoted(name, value) for name, value in added]
    if len(os.fsencode(" ".join(words))) > MAX_BYTES:
        raise UsageError(
            f"The repository's git settings name {len(added)} commands, more than can be switched off.",
            hint="Look into its .git/config. With --trust project they stay on.",
        )
    more = {VARIABLE: " ".join(words)}
    if any(entry.name == "core.gitproxy" and entry.scope in _REPOSITORY for one in listed for entry in one):
        # Git uses the first value of this setting, so an override has no effect.
        more["GIT_PROXY_COMMAND"] = environ.get("GIT_PROXY_COMMAND", "")
    return more


def _quoted(name: str, value: str) -> str:
    """The setting as git itself writes it. The form that older versions of git read cannot hold a name with a `=`."""
    return f"{_word(name)}={_word(value)}" if "=" in name else _word(f"{name}={value}")


def _word(text: str) -> str:
    return "'" + text.replace("'", "'\\''").replace("!", "'\\!'") + "'"
