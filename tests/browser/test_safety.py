"""An agent's text is not trusted: hostile Markdown is plain text, nothing runs, no request leaves the machine."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from browser.daemon import Daemon
from browser.visitor import Visitor, answers, send
from clew.testing.model.scripts import Slow

Visit = Callable[..., Visitor]

EVIL = "http://evil.example"
HOSTILE = {
    "script": "<script>hacked()</script>",
    "image error": "<img src=x onerror=hacked()>",
    "image from elsewhere": f"![x]({EVIL}/x.png)",
    "html image from elsewhere": f"<img src='{EVIL}/x.png'>",
    "javascript link": "[click](javascript:hacked())",
    "javascript link in disguise": "[click](java&#x09;script:hacked())",
    "javascript link in capitals": "[click](JaVaScRiPt:hacked())",
    "javascript reference": "[click][r]\n\n[r]: javascript:hacked()",
    "javascript autolink": "<javascript:hacked()>",
    "vbscript link": "[click](vbscript:hacked())",
    "data link": "[click](data:text/html,<script>hacked()</script>)",
    "data picture of svg": "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9aGFja2VkKCk+)",
    "svg": "<svg onload=hacked()><script>hacked()</script></svg>",
    "svg animation": "<svg><animate onbegin=hacked() attributeName=x dur=1s>",
    "iframe": f"<iframe src='{EVIL}' srcdoc='<script>parent.hacked()</script>'></iframe>",
    "object and embed": f"<object data='{EVIL}'></object><embed src='{EVIL}'>",
    "style": f"<style>* {{ background: url({EVIL}/x) }}</style><p style='background:url({EVIL}/y)'>x</p>",
    "link and base": f"<link rel=stylesheet href='{EVIL}/x.css'><base href='{EVIL}'>",
    "meta refresh": f"<meta http-equiv=refresh content='0;url={EVIL}'>",
    "form": f"<form action='{EVIL}'><button autofocus onfocus=hacked()>x</button></form>",
    "mutation by math": "<math><mtext><table><mglyph><style><!--</style>"
    "<img title='--&gt;&lt;img src=x onerror=hacked()&gt;'>",
    "mutation by noscript": "<noscript><p title='</noscript><img src=x onerror=hacked()>'>",
    "template": "<template><img src=x onerror=hacked()></template>",
    "details": "<details open ontoggle=hacked()>x</details>",
    "video": f"<video src='{EVIL}/v' onerror=hacked() autoplay></video><audio src=x onerror=hacked()>",
    "title that breaks out": '[x](https://ok.example "\\" onmouseover=hacked() x=\\"")',
    "alt that breaks out": '![" onerror=hacked() x="](data:image/png;base64,AAAA)',
    "code fence language": '```"onmouseover=hacked()\n<img src=x onerror=hacked()>\n```',
    "table cell": "| a |\n| --- |\n| <img src=x onerror=hacked()> |",
    "dom clobbering": "<form id=page><input name=innerHTML></form><a id=document name=cookie>x</a>",
}
COUNT = "window.hits = 0; window.hacked = () => { window.hits += 1 };"
FORBIDDEN = "script, iframe, object, embed, style, link, base, meta, form, svg, math, video, audio, template, noscript"


def test_hostile_markdown_is_shown_as_text_and_nothing_runs(daemon: Daemon, visit: Visit) -> None:
    kinds = list(HOSTILE)
    thread = daemon.thread("hostile")
    daemon.say(thread, *HOSTILE.values())
    visitor = visit(daemon)
    visitor.context.add_init_script(COUNT)
    page = visitor.open(thread)
    expect(answers(page)).to_have_count(len(HOSTILE))
    page.mouse.wheel(0, -1)  # until the reader scrolls, the page stays at its end
    for answer in answers(page).all():
        answer.scroll_into_view_if_needed()
        expect(answer.locator(".markdown:not(.plain)")).to_have_count(1)
        answer.hover()
    expect_harmless(page)
    expect(answers(page)).to_have_count(len(HOSTILE))
    expect(answers(page).nth(kinds.index("script"))).to_contain_text("<script>hacked()</script>")
    expect(answers(page).nth(kinds.index("iframe"))).to_contain_text("<iframe src=")


def test_hostile_markdown_that_streams_in_runs_nothing_at_any_point(daemon: Daemon, visit: Visit) -> None:
    daemon.stage.api.script.append(Slow("\n\n".join(HOSTILE.values()), 200))
    visitor = visit(daemon)
    visitor.context.add_init_script(COUNT)
    page = visitor.open(daemon.thread("hostile-stream"))
    send(page, "Say it.")
    expect(page.get_by_test_id("badge")).to_be_visible()
    expect_harmless(page)
    expect(answers(page)).to_contain_text("<script>hacked()</script>")


def expect_harmless(page: Page) -> None:
    words = page.locator(".turn.assistant .markdown")
    for link in words.locator("a").all():
        assert (link.get_attribute("href") or "").startswith(("http://", "https://", "mailto:")), link.inner_html()
        assert link.get_attribute("target") == "_blank"
        assert link.get_attribute("rel") == "noopener noreferrer"
    for picture in words.locator("img").all():
        assert (picture.get_attribute("src") or "").startswith("data:image/png")
    assert words.locator(FORBIDDEN).count() == 0
    names = words.locator("*").evaluate_all("all => all.flatMap(each => each.getAttributeNames())")
    assert not {name for name in names if name.startswith("on") or name == "style"}, "no handler, no style"
    assert page.evaluate("window.hits") == 0


def test_hostile_text_of_a_user_a_tool_and_a_name_is_plain_text(daemon: Daemon, visit: Visit) -> None:
    bad = "<img src=x onerror=hacked()>"
    thread = daemon.thread("bad-words", f'{bad}\n!tool Bash {{"command": "echo \'{bad}\'"}}', permissions="all")
    visitor = visit(daemon)
    visitor.context.add_init_script(COUNT)
    page = visitor.open(thread)
    page.get_by_test_id("tool").click()
    expect(page.get_by_label("Output")).to_contain_text(bad)
    expect(page.get_by_test_id("turn-user")).to_contain_text(bad)
    assert page.locator(".turn img").count() == 0
    assert page.evaluate("window.hits") == 0


def test_the_policy_is_strict_and_is_enforced(daemon: Daemon, visit: Visit) -> None:
    visitor = visit(daemon)
    page = visitor.open()
    refused = page.evaluate(
        """() => {
          const tried = {};
          try { document.body.innerHTML = '<b>x</b>'; tried.html = 'allowed'; } catch { tried.html = 'refused'; }
          const script = document.createElement('script');
          try { script.text = 'window.inline = 1'; document.body.append(script); } catch { /* refused */ }
          tried.inline = window.inline === 1 ? 'allowed' : 'refused';
          return tried;
        }"""
    )
    assert refused == {"html": "refused", "inline": "refused"}
    visitor.errors.clear()  # these errors are expected
