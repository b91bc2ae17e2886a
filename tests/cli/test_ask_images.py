"""`clew ask --image`: what is refused before anything is stored, and what is shown of an image."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from clew.core.images import MAX_IMAGE_BYTES
from pictures import png


def test_images_are_sent_and_named(cli: Any) -> None:
    for name, content in (("login.png", png(1)), ("\x1b]0;title\x07\x1b[2J.png", png(2))):
        (cli.stage.work / name).write_bytes(content)
    done = cli.run("ask", "-t", "t", "--image", "login.png", "--image", "\x1b]0;title\x07\x1b[2J.png", "what is this?")

    assert (done.code, done.out) == (0, "ack: what is this?\n")
    assert cli.stage.api.main_requests[-1].images == 2
    shown = cli.run("threads", "show", "t").out
    assert f"[image: login.png (PNG, {len(png(1))} bytes)]" in shown
    assert "[image: \ufffd]0;title\ufffd\ufffd[2J.png (PNG, " in shown
    assert "\x1b" not in shown
    images = [image["name"] for turn in cli.turns("t") for image in turn["images"]]
    assert images == ["login.png", "\ufffd]0;title\ufffd\ufffd[2J.png"]


def test_explain_counts_the_images_and_stores_nothing(cli: Any) -> None:
    (cli.stage.work / "a.png").write_bytes(png(1))
    done = cli.run("ask", "--explain", "--image", "a.png", "what is this?")
    assert (done.code, done.out) == (0, "what is this?")
    assert f"images     1 image: a.png (PNG, {len(png(1))} bytes); their price is not in the estimates" in done.err
    assert not (cli.stage.clew_home / "images").exists()
    assert len(cli.run("ask", "--explain", "--json", "--image", "a.png", "x").json["images"]) == 1


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.png", "missing.png cannot be read: No such file or directory."),
        ("folder", "folder cannot be read: Is a directory."),
        ("pipe.png", "pipe.png cannot be read: It is not a plain file."),
        ("/dev/zero", "/dev/zero cannot be read: It is not a plain file."),
        ("text.png", "text.png is not an image that agents take."),
        ("drawing.svg", "drawing.svg is not an image that agents take."),
        ("empty.png", "empty.png is empty."),
        ("large.png", "large.png has more than 5 MiB, which is the limit for an image."),
        ("\x1b[31mred.png", "'\\x1b[31mred.png' cannot be read: No such file or directory."),
        ("x" * 5000, f"{'x' * 200} cannot be read: File name too long."),
        ("", "'' cannot be read: Is a directory."),
        ("~nobody-has-this-name/a.png", "~nobody-has-this-name/a.png begins with the home of an unknown user."),
    ],
)
def test_what_is_not_an_image_is_refused_in_one_line(cli: Any, name: str, why: str) -> None:
    work: Path = cli.stage.work
    (work / "folder").mkdir()
    os.mkfifo(work / "pipe.png")
    (work / "text.png").write_text("I am not an image.")
    (work / "drawing.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (work / "empty.png").touch()
    with (work / "large.png").open("wb") as file:
        file.write(png(1))
        file.truncate(MAX_IMAGE_BYTES + 1)
    done = cli.run("ask", "-t", "t", "--image", name, "what is this?")

    assert (done.code, done.out) == (2, "")
    lines = done.err.splitlines()
    assert (lines[0].endswith(why), len(lines) <= 2) == (True, True), done.err
    assert cli.run("threads", "list", "--json").json == []
    assert not (cli.stage.clew_home / "images").exists()
    assert cli.stage.launches == []
