"""Pages without scripts: for a browser that is not logged in or was just logged in, and when the web page is not built.

Their style sheet is served without a token, so that inline styles can stay forbidden here too.
"""

from __future__ import annotations

STYLE_PATH = "/login.css"

STYLE = """\
:root {
  color-scheme: light dark;
  --bg: #fcfbf9; --raised: #ffffff; --sunken: #f1eee9; --line: #e3dfd7; --text: #22201c; --muted: #67625a;
  --accent: #b0303f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --bg: #17181b; --raised: #212327; --sunken: #2a2c31; --line: #2e3036; --text: #e5e3de; --muted: #a19e97;
    --accent: #f08c95;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem;
  background: var(--bg); color: var(--text); font: 15px/1.6 ui-sans-serif, system-ui, sans-serif;
}
main {
  max-width: 34rem; padding: 1.75rem 2rem; background: var(--raised);
  border: 1px solid var(--line); border-top: 3px solid var(--accent); border-radius: 8px;
}
h1 { margin: 0 0 .75rem; font-size: 1.25rem; line-height: 1.3; }
p { margin: 0 0 .75rem; color: var(--muted); }
p:last-child { margin-bottom: 0; }
code {
  padding: .1em .35em; border-radius: 4px; background: var(--sunken); color: var(--text);
  font: .9em ui-monospace, Menlo, Consolas, monospace;
}
a { color: var(--accent); }
"""

_FRAME = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Clew: {title}</title><meta name="viewport" content="width=device-width">\
<link rel="stylesheet" href="{style}">{head}</head>
<body>
<main>
<h1>{title}</h1>
{text}
</main>
</body>
</html>
"""


def _page(title: str, text: str, head: str = "") -> str:
    return _FRAME.format(title=title, text=text, head=head, style=STYLE_PATH)


_HOW_TO_LOG_IN = """\
<p>Open the whole address that <code>clew serve</code> printed, with its <code>?token=…</code>. Each browser needs it
once.</p>"""

LOGIN_NEEDED = _page(
    "This page needs its token",
    f"""\
<p>This browser is not logged in yet.</p>
{_HOW_TO_LOG_IN}
<p>If you have just done that, <a href="/">continue here</a>.</p>""",
)
WRONG_TOKEN = _page(
    "That token is not valid",
    f"""\
<p>It may be an old one: <code>clew serve --new-token</code> makes another, and an address that <code>--open</code>
opens works once.</p>
{_HOW_TO_LOG_IN}""",
)
# A browser does not send a strict cookie with a redirect that another site caused (a link in a chat), so a page of our
# own has to lead to the home page.
LOGGED_IN = _page(
    "Logged in", '<p><a href="{home}">Continue</a></p>', '<meta http-equiv="refresh" content="0;url={home}">'
)
PAGE_NOT_BUILT = _page(
    "The page is not built",
    """\
<p>The API works. For the page run <code>make web</code> in the source tree and reload this, or install Clew from a
wheel.</p>""",
)
