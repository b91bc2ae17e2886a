"""What rule files say about themselves, as the Claude CLI reads it: their imports, and the files that they are for."""

from __future__ import annotations

import posixpath
import re

# `re` compiles these when a project with rules is met. None of them takes more than linear time: the text is not ours.
_IMPORT = r"(?:^|(?<=\s))@((?:[^\s\\]|\\ )+)"
_FENCE = r"[ \t]{0,3}(`{3,}|~{3,})"
_PARAGRAPHS = r"(\n[ \t]*\n)"
_FRONTMATTER = r"\A---[ \t]*\n(.*?\n)?---[ \t]*(?:\n|\Z)"
_EVERYTHING = frozenset({"**", "**/*", "*"})


def imports(text: str) -> list[str]:
    """The paths after an `@`, as they are written. An `@` in code or in a comment names nothing."""
    text = _without_comments(_without_fences(text))
    text = "".join(_without_code(each) for each in re.split(_PARAGRAPHS, text))
    found = (path.replace("\\ ", " ").partition("#")[0] for path in re.findall(_IMPORT, text))
    return [path for path in dict.fromkeys(found) if path]


def _without_fences(text: str) -> str:
    kept, fence = list[str](), ""
    for line in text.split("\n"):
        match = re.match(_FENCE, line)
        if not fence and match is None:
            kept.append(line)
        elif not fence and match is not None:
            fence = match[1]
        elif match is not None and match[1].startswith(fence) and not line[match.end() :].strip():
            fence = ""
    return "\n".join(kept)


def _without_comments(text: str) -> str:
    kept, at = list[str](), 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin)) >= 0:
        kept.append(text[at:begin])
        at = end + 3
    return " ".join([*kept, text[at:]])


def _without_code(paragraph: str) -> str:
    """A code span ends at the next run of backticks that is as long as the one it began with."""
    runs = list(re.finditer("`+", paragraph))
    places: dict[int, list[int]] = {}
    for run in reversed(runs):
        places.setdefault(len(run[0]), []).append(run.start())
    kept, at = list[str](), 0
    for run in runs:
        same = places[len(run[0])]
        while same and same[-1] <= run.start():
            same.pop()
        if run.start() >= at and same:
            kept.append(paragraph[at : run.start()])
            at = same[-1] + len(run[0])
    return " ".join([*kept, paragraph[at:]])


def imported_path(path: str, importer: str) -> str | None:
    """The path relative to the root; None: it leads out of the repository, or is not relative to the importing file."""
    if path.startswith(("/", "~")) or "\0" in path:
        return None
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))
    return None if whole == ".." or whole.startswith("../") else whole


def without_frontmatter(text: str) -> tuple[str, tuple[str, ...]]:
    """The text below the frontmatter, and the patterns of `paths` in it; (): it is for all files."""
    match = re.match(_FRONTMATTER, text, re.DOTALL)
    if match is None:
        return text, ()
    globs = _paths(match[1] or "")
    return text[match.end() :], () if _EVERYTHING & set(globs) else globs


def _paths(frontmatter: str) -> tuple[str, ...]:
    """`paths: a, b`, `paths: [a, b]`, or a list with a line for each."""
    match = re.search(r"(?m)^paths:[ \t]*(.*)$((?:\n[ \t]*-[ \t]+.*$)*)", frontmatter)
    if match is None:
        return ()
    listed = [line.strip().removeprefix("-") for line in match[2].splitlines() if line.strip()]
    words = listed or _split(match[1].strip().removeprefix("[").removesuffix("]"))
    found = (re.sub(r"[\x00-\x1f\x7f]+", " ", word.strip().strip("\"'")) for word in words)
    return tuple(word for word in found if word)


def _split(listed: str) -> list[str]:
    """The parts between commas, except for those in braces: `src/*.{ts,tsx}`."""
    return re.findall(r"(?:[^,{]|\{[^}]*\}?)+", listed)
