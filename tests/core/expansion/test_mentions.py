"""What counts as a mention of a file in a prompt."""

from __future__ import annotations

import pytest

from clew.core.expansion.mentions import FilePart, mentions_in


def named(text: str) -> list[tuple[str, int | None, int | None]]:
    """The last thing that each mention may name: the others are the same with what may be punctuation."""
    return [(part.path, part.first, part.last) for part in (each.candidates[-1] for each in mentions_in(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see @a.py", [("a.py", None, None)]),
        ("@a.py", [("a.py", None, None)]),
        ("see\n@src/a.py#L10-20 and\t@b.py#L7", [("src/a.py", 10, 20), ("b.py", 7, 7)]),
        ("@a.py#L10-L20", [("a.py", 10, 20)]),
        ("@a.py#L20-10", [("a.py", 20, 20)]),
        ("@a.md#heading", [("a.md", None, None)]),
        ('see @"with a blank.txt" now', [("with a blank.txt", None, None)]),
        ('@"with a blank.txt"#L3', [("with a blank.txt", 3, 3)]),
        ("look at @a.py, @b.py: @c.py. @d.py?", [(f"{each}.py", None, None) for each in "abcd"]),
        ("@../up @/etc/passwd @~/notes", [("../up", None, None), ("/etc/passwd", None, None), ("~/notes", None, None)]),
        ("@é/日本.txt", [("é/日本.txt", None, None)]),
        ("@a @a", [("a", None, None)]),
        ("mail me@example.org or <@x> or (@y) or '@z'", []),
        ('say "@a.py"', []),
        ("`@a.py` and ``@b ` @c`` then @d", [("d", None, None)]),
        ("```python\n@decorator\n```\n@e", [("e", None, None)]),
        ("~~~\n@a\n```\n@b", []),
        ("a lone ` here\n\n@a", [("a", None, None)]),
        ("@ alone, @@twice, @", []),
        ("no mention", []),
    ],
)
def test_a_mention_is_a_path_after_an_at_sign_outside_of_code(
    text: str, expected: list[tuple[str, int | None, int | None]]
) -> None:
    assert named(text) == expected


def test_a_name_as_it_is_written_comes_before_the_name_without_punctuation() -> None:
    assert mentions_in("@src/(app)")[0].candidates == (FilePart("src/(app)"), FilePart("src/(app"))
    assert mentions_in("@a#L2")[0].candidates == (FilePart("a#L2"), FilePart("a", 2, 2))


@pytest.mark.parametrize(
    "text", ["x" + "`" * 200_001, "``" + "` " * 100_000, "@" * 200_000, "```\n" * 50_000, "`a` @b " * 50_000]
)
def test_a_long_text_is_read_once(text: str) -> None:
    assert [mention.written for mention in mentions_in(f"{text}\n\n@a")][-1] == "@a"
