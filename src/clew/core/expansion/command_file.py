"""The file of a slash command or a skill: its frontmatter, its arguments and its shell blocks.

The rules are those of the plain CLIs. For Claude's files (measured): `$ARGUMENTS` is everything after the name, `$0`
and `$ARGUMENTS[0]` are the first word, names that the frontmatter lists under `arguments` stand for the words in their
order, a word that is missing leaves its placeholder, a backslash keeps a placeholder, and arguments that no placeholder
takes are appended. For Codex's prompts: `$1` is the first word, `$NAME` is what `NAME=value` gives, `$$` is a dollar.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from clew.core.expansion.file_syntax import FileSyntax
from clew.core.record import Record

_FRONTMATTER = re.compile(r"\A\ufeff?---[^\S\n]*\n(.*?)^---[^\S\n]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z][\w-]*)[^\S\n]*:(?:[^\S\n]+(.*))?\Z")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_QUOTED = re.compile(r"""("(?:[^"\\]|\\.)*"|'[^']*')\s*(?:#.*)?\Z""")
_TOOL = re.compile(r"[^\s,()]+(?:\([^)]*\))?")
_SHELL = re.compile(r"^```![^\S\n]*\n|(?<!\S)!`([^`\n]+)`", re.MULTILINE)
_SHELL_END = re.compile(r"^```[^\S\n]*$", re.MULTILINE)
_LISTED = re.compile(r"(?:[^,(]|\([^)]*\)?)+")  # between commas, except for those in parentheses
_MAX_NAMES = 100  # of arguments
_BLANKS = " \t\r\n"
_WORD = re.compile(r"""(?:[^ \t\r\n"'\\]++|\\.|"(?:[^"\\]++|\\.)*+"|'[^']*+')++""", re.DOTALL)
_WORD_PART = re.compile(r"""\\(.)|"((?:[^"\\]++|\\.)*+)"|'([^']*+)'""", re.DOTALL)
_ANY_COMMAND = ("Bash", "Bash(*)", "Bash(:*)")


class CommandFile(Record):
    """What a file says, with its frontmatter read."""

    body: str
    description: str = ""  # of the frontmatter, else the first line of the body
    argument_hint: str = ""
    name: str = ""  # the other name of a skill
    allowed_tools: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()  # names for the words
    for_user: bool = True  # False: only the agent may use it


class ShellBlock(Record):
    command: str
    start: int
    end: int


def parse(text: str) -> CommandFile:
    text = text.replace("\r\n", "\n")
    head = _FRONTMATTER.match(text)
    body = text[head.end() :] if head is not None else text
    fields = _fields(head[1]) if head is not None else {}
    first_line = next((line.strip().lstrip("# ") for line in body.splitlines() if line.strip()), "")
    return CommandFile(
        body,
        description=" ".join(fields.get("description", ())) or first_line,
        argument_hint=", ".join(fields.get("argument-hint", ())),
        name=" ".join(fields.get("name", ())),
        allowed_tools=tuple(tool for each in fields.get("allowed-tools", ()) for tool in _tools(each)),
        arguments=tuple(name for each in fields.get("arguments", ()) for name in each.replace(",", " ").split())[
            :_MAX_NAMES
        ],
        for_user=" ".join(fields.get("user-invocable", ())).lower() not in ("false", "no", "off"),
    )


def _fields(head: str) -> Mapping[str, Sequence[str]]:
    """The values of each key: one, or those of a list. This is the part of YAML that such files use."""
    fields: dict[str, list[str]] = {}
    values: list[str] = []
    for line in head.splitlines():
        key = _KEY.match(line)
        if key is not None:
            values = fields.setdefault(key[1].lower(), [])
            value = _without_comment(key[2] or "")
            if value.startswith("[") and value.endswith("]"):
                values += [_unquoted(each) for each in _LISTED.findall(value[1:-1]) if each.strip()]
            elif value and value not in ("|", ">", "|-", ">-"):
                values.append(_unquoted(value))
        elif line[:1] in (" ", "\t", "-") and (value := _without_comment(line.strip().removeprefix("- "))):
            values.append(_unquoted(value))
    return fields


def _without_comment(value: str) -> str:
    value = value.strip()
    quoted = _QUOTED.match(value)
    return quoted[1] if quoted is not None else _COMMENT.sub("", value, count=1).strip()


def _tools(listed: str) -> list[str]:
    """The tools in a value. One whose parenthesis is not closed is none: without its pattern it would allow more."""
    end = listed.rfind(")") + 1
    begun, opened, _ = listed[end:].partition("(")
    rest = begun if not opened else " ".join(re.split(r"[\s,]", begun)[:-1])
    return [*_TOOL.findall(listed[:end]), *_TOOL.findall(rest)]


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def shell_blocks(body: str) -> tuple[ShellBlock, ...]:
    """The commands whose output stands in the text: `` !`command` `` after a blank, and blocks that begin with ```!."""
    ends = list(_SHELL_END.finditer(body))
    starts = [end.start() for end in ends]
    found, at = list[ShellBlock](), 0
    while match := _SHELL.search(body, at):
        at = match.end()
        if match[1] is not None:
            found.append(ShellBlock(match[1], match.start(), at))
        elif (place := bisect_left(starts, at)) < len(ends):  # else it is not closed, and is text
            command, at = body[at : starts[place]], ends[place].end()
            found.append(ShellBlock(command.strip("\n"), match.start(), at))
    return tuple(found)


def words(arguments: str) -> list[str]:
    """The words of the arguments, as a shell would see them. `shlex` takes minutes for a word of some megabytes."""
    found, at = list[str](), 0
    for match in _WORD.finditer(arguments):
        if arguments[at : match.start()].strip(_BLANKS):
            return arguments.split()  # a quotation mark without its partner
        found.append(_WORD_PART.sub(_unescaped, match.group()))
        at = match.end()
    return found if not arguments[at:].strip(_BLANKS) else arguments.split()


def _unescaped(part: re.Match[str]) -> str:
    escaped, double, single = part.groups()
    if double is not None:
        return re.sub(r"""\\([\\"])""", r"\1", double)
    return escaped if escaped is not None else single


def fill(
    text: str,
    arguments: str,
    given: Sequence[str],
    file: CommandFile,
    syntax: FileSyntax,
    constants: Mapping[str, str],
) -> tuple[str, bool]:
    """The text with its placeholders filled in, and whether it has a placeholder that took an argument. `given` are
    the words of the arguments."""
    if syntax is FileSyntax.CODEX:
        return _fill_codex(text, arguments, given)
    for name, value in constants.items():
        text = text.replace(f"${{{name}}}", value)
    names = "".join(f"|{re.escape(name)}(?!\\w)" for name in file.arguments)
    took = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal took
        if match[1]:
            return match.group()[1:]
        what = match[2]
        if what == "ARGUMENTS":
            took = True
            return arguments
        number = file.arguments.index(what) if what in file.arguments else int(re.sub(r"\D", "", what))
        if number >= len(given):
            return match.group()
        took = True
        return given[number]

    pattern = rf"(\\)?\$(ARGUMENTS\[\d{{1,4}}\]|ARGUMENTS(?!\w)|\d{{1,4}}{names})"
    return re.sub(pattern, replaced, text), took


def _fill_codex(text: str, arguments: str, given: Sequence[str]) -> tuple[str, bool]:
    named = dict(word.split("=", 1) for word in given if re.match(r"[A-Z][A-Z0-9_]*=", word))
    took = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal took
        what = match[1]
        if what == "$":
            return "$"
        took = True
        if what == "ARGUMENTS":
            return arguments
        if what.isdigit():
            return given[int(what) - 1] if int(what) <= len(given) else ""
        return named.get(what, match.group())

    return re.sub(r"\$(\$|ARGUMENTS|[1-9]|[A-Z][A-Z0-9_]*)", replaced, text), took


def fill_blocks(
    file: CommandFile, syntax: FileSyntax, arguments: str, constants: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """The filled text around the shell blocks, and the commands of the blocks: one fewer than the pieces of text.

    The blocks are found before the arguments are filled in, so that no argument becomes one.
    """
    texts, commands, took, end = list[str](), list[str](), False, 0
    given = words(arguments)

    def filled(text: str) -> str:
        nonlocal took
        done, has_taken = fill(text, arguments, given, file, syntax, constants)
        took = took or has_taken
        return done

    for block in shell_blocks(file.body) if syntax is FileSyntax.CLAUDE else ():
        texts.append(filled(file.body[end : block.start]))
        commands.append(filled(block.command))
        end = block.end
    texts.append(filled(file.body[end:]))
    if arguments.strip() and not took and syntax is FileSyntax.CLAUDE:
        texts[-1] = f"{texts[-1].rstrip()}\n\nARGUMENTS: {arguments}"
    return texts, commands


def permits(allowed_tools: Sequence[str], command: str) -> bool:
    """Whether `allowed-tools` permits this command of a shell block: each of its parts must be permitted.

    What cannot be taken apart without a shell is permitted only by `Bash` without a pattern.
    """
    if any(tool in _ANY_COMMAND for tool in allowed_tools):
        return True
    plain = re.sub(r"\s(?:[12]?>\s?/dev/null|2>&1)(?![^\s;&|])", " ", command)
    if any(mark in plain for mark in ("`", "$(", "<", ">")):
        return False
    parts = [part.strip() for part in re.split(r"&&|\|\||[;|\n]", plain)]
    patterns = [pattern for tool in allowed_tools for pattern in _patterns(tool)]
    return all(part and "&" not in part and any(fnmatchcase(part, each) for each in patterns) for part in parts)


def run_tools(allowed_tools: Sequence[str]) -> tuple[str, ...]:
    """The tools as `answer_by_policy` reads them: its patterns have no colon."""
    found = list[str]()
    for tool in allowed_tools:
        if tool in _ANY_COMMAND:
            found.append("Bash")
        elif tool.startswith("Bash("):
            found += [f"Bash({pattern})" for pattern in _patterns(tool)]
        else:
            found.append(tool)
    return tuple(dict.fromkeys(found))


def _patterns(tool: str) -> tuple[str, ...]:
    """The patterns of a command: `Bash(git add:*)` is the command alone, and with anything after a blank."""
    if not (tool.startswith("Bash(") and tool.endswith(")")):
        return ()
    pattern = tool.removeprefix("Bash(").removesuffix(")").replace("[", "[[]")
    if pattern.endswith(":*"):
        return pattern[:-2], f"{pattern[:-2]} *"
    return (pattern,)
