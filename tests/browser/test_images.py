"""Images on the page: attached to a prompt by choice and by paste, sent, and shown in the turn."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from browser.daemon import Daemon
from browser.visitor import Visitor, expect_idle, send
from pictures import png

Visit = Callable[..., Visitor]

PASTE = """(area, bytes) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], "pasted.png", { type: "image/png" }));
  area.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""


def test_images_are_attached_sent_and_shown_in_the_turn(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("pictures"))
    page.get_by_test_id("image-chooser").set_input_files(
        [
            {"name": "chosen.png", "mimeType": "image/png", "buffer": png(1, size=32)},
            {"name": "<img onerror=1>.png", "mimeType": "image/png", "buffer": png(2, size=32)},
            {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no image"},
        ]
    )
    expect(page.get_by_text("notes.txt is not a PNG, JPEG, GIF or WebP image.")).to_be_visible()
    expect(page.get_by_test_id("attached-image")).to_have_count(2)
    composer = page.get_by_test_id("composer")
    composer.evaluate(PASTE, list(png(3, size=32)))
    expect(page.get_by_test_id("attached-image")).to_have_count(3)
    page.get_by_role("button", name="Remove chosen.png").click()
    send(page, "what are these?")
    expect_idle(page)

    expect(page.get_by_test_id("attached-image")).to_have_count(0)
    shown = page.get_by_test_id("turn-image")
    expect(shown).to_have_count(2)
    expect(shown.nth(0)).to_contain_text("<img onerror=1>.png")
    for place in range(2):
        expect(shown.nth(place).locator("img")).to_have_js_property("naturalWidth", 32)
    assert daemon.stage.api.main_requests[-1].images == 2
