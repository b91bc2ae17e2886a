"""What a turn keeps about an image, and what a model is shown of the images of earlier turns."""

from __future__ import annotations

import pytest

from clew.core import prompts
from clew.core.history import Role, Turn, digest, text_digest
from clew.core.ids import TurnId
from clew.core.images import MAX_IMAGE_BYTES, ImageContent, image_from, image_of, media_type_of, shown_name
from clew.core.record import replace
from pictures import GIF, JPEG, WEBP, png

TURN = Turn(TurnId("t1"), Role.USER, "What is this?")


def test_an_image_is_recognised_by_its_content() -> None:
    kinds = [media_type_of(content) for content in (png(), JPEG, GIF, GIF.replace(b"89", b"87"), WEBP)]
    assert kinds == ["image/png", "image/jpeg", "image/gif", "image/gif", "image/webp"]
    for other in (
        b"",
        b"\x89PNG",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.7",
        b"RIFF\0\0\0\0WAVE",
        b"BM",
    ):
        assert media_type_of(other) is None, other
    assert image_of(ImageContent(b"GIF, says the name", "x.gif")) is None


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("/home/me/screenshots/login page.png", "login page.png"),
        ("\x1b]52;c;QUJD\x07\x1b[2J.png", "\ufffd]52;c;QUJD\ufffd\ufffd[2J.png"),
        ("two\nlines\u2028and\u202emore.png", "two\ufffdlines\ufffdand\ufffdmore.png"),
        ("half \ud800 a character.png", "half \ufffd a character.png"),
        ("", "image"),
        ("folder/", "image"),
        ("x" * 300 + ".png", "x" * 79 + "…"),
    ],
)
def test_a_name_is_one_harmless_line(given: str, shown: str) -> None:
    assert shown_name(given) == shown
    assert shown_name(shown) == shown, "it can be stored, and read back"


def test_the_digest_of_a_turn_changes_with_its_images_and_is_as_before_without() -> None:
    assert digest(TURN) == text_digest("t1\0user\0What is this?"), "pins of older versions still hold"
    images = [image_of(ImageContent(content, name)) for content, name in ((png(1), "a.png"), (png(2), "a.png"))]
    one, other = (replace(TURN, images=(image,)) for image in images if image is not None)
    both = replace(TURN, images=(*one.images, *other.images))
    swapped = replace(TURN, images=(*other.images, *one.images))
    found = [digest(turn) for turn in (TURN, one, other, both, swapped)]
    assert len(set(found)) == len(found)


def test_a_transcript_names_the_images_of_a_turn_and_says_that_they_are_not_in_it() -> None:
    image = image_of(ImageContent(png(1), "screen\nshot.png"))
    assert image is not None
    section = prompts.turns_section([replace(TURN, images=(image,))], 1_000)
    assert section.text == (
        "## User\n\nWhat is this?\n\n"
        f"[Image: screen\ufffdshot.png (PNG, {image.size_bytes} bytes), shown in this turn. "
        "It is not part of this transcript.]"
    )


def test_a_stored_image_that_clew_does_not_write_is_refused() -> None:
    image = image_of(ImageContent(png(1), "a.png"))
    assert image is not None
    body = image.as_dict()
    assert image_from(body) == image
    for change in (
        {"name": "\x1b[2J.png"},
        {"name": "../a.png"},
        {"name": 7},
        {"media_type": "image/svg+xml"},
        {"media_type": []},
        {"size_bytes": 0},
        {"size_bytes": MAX_IMAGE_BYTES + 1},
        {"size_bytes": True},
        {"digest": "../../etc/passwd"},
        {"digest": image.digest.upper()},
        {"digest": f"{image.digest}\n"},
    ):
        with pytest.raises(ValueError, match="image"):
            image_from(body | change)
    with pytest.raises(ValueError, match="image"):
        image_from({})
