"""Which call of the Python API and which HTTP route do what each command does, and which MCP tool where an agent can
use it. A command that has none of them says why.
"""

from __future__ import annotations

from clew.core.record import Record


class Row(Record):
    """`api` are callables of a module or of an open `client`, `http` are routes, and `mcp` is a tool."""

    api: tuple[str, ...] = ()
    http: tuple[str, ...] = ()
    mcp: str | None = None
    why_no_api: str = ""
    why_no_http: str = ""


TABLE: dict[str, Row] = {
    "ask": Row(
        (
            "client.thread",
            "client.latest",
            "client.newest_session",
            "clew.api.thread.Thread.ask",
            "clew.api.thread.Thread.explain",
            "clew.api.thread.Thread.start_ahead",
        ),
        (
            "POST /api/threads",
            "POST /api/threads/{thread}/runs",
            "POST /api/threads/{thread}/start-ahead",
            "GET /api/threads/{thread}/session",
            "GET /api/latest",
        ),
        "ask",
    ),
    "open": Row(
        ("clew.api.thread.Thread.opening", "clew.api.thread.Thread.in_terminal"),
        why_no_http="It starts a program on the terminal of the person who calls it.",
    ),
    "chat": Row(("client.thread", "clew.api.thread.Thread.ask"), why_no_http="It is a prompt on a terminal."),
    "threads archive": Row(("client.archives.archive",), ("POST /api/archives",)),
    "threads archives": Row(("client.archives.files",), ("GET /api/archives",)),
    "threads clean": Row(("clew.api.archives.clean",), ("POST /api/archives/clean",)),
    "threads delete": Row(("clew.api.thread.Thread.delete",), ("DELETE /api/threads/{thread}",)),
    "threads diff": Row(("clew.api.branching.compare",), ("GET /api/compare",), "compare_threads"),
    "threads edit": Row(("clew.api.thread.Thread.edit",), ("PATCH /api/threads/{thread}/turns/{turn}",)),
    "threads export": Row(("clew.api.exports.export",), ("POST /api/threads/{thread}/export",)),
    "threads fork": Row(("clew.api.branching.fork",), ("POST /api/threads/{thread}/fork",), "fork_thread"),
    "threads import": Row(("clew.api.exports.import_file",), ("POST /api/imports",)),
    "threads list": Row(("client.views.threads",), ("GET /api/threads",), "list_threads"),
    "threads merge": Row(("clew.api.branching.merge",), ("POST /api/merge",)),
    "threads pull": Row(("clew.api.remotes.pull",), ("POST /api/remotes/pull",)),
    "threads push": Row(("clew.api.remotes.push",), ("POST /api/remotes/push",)),
    "threads rename": Row(("clew.api.thread.Thread.change",), ("PATCH /api/threads/{thread}",)),
    "threads replay": Row(
        ("clew.api.branching.replay",), ("POST /api/threads/{thread}/replay", "POST /api/pairs/{pair}/replay")
    ),
    "threads restore": Row(("clew.api.archives.restore",), ("POST /api/archives/{archive}/restore",)),
    "threads retry": Row(("clew.api.thread.Thread.retry",), ("POST /api/threads/{thread}/retry",)),
    "threads search": Row(("client.views.search",), ("GET /api/search",), "search_threads"),
    "threads set": Row(("clew.api.thread.Thread.change",), ("PATCH /api/threads/{thread}",)),
    "threads show": Row(
        ("client.views.thread", "clew.api.thread.Thread.work"),
        ("GET /api/threads/{thread}/view", "GET /api/threads/{thread}/work"),
        "read_thread",
    ),
    "threads sync": Row(("clew.api.thread.Thread.sync",), ("POST /api/threads/{thread}/sync",)),
    "threads truncate": Row(("clew.api.thread.Thread.truncate",), ("POST /api/threads/{thread}/truncate",)),
    "sessions adopt": Row(("clew.api.sessions.adopt",), ("POST /api/sessions/adopt",)),
    "sessions list": Row(("clew.api.sessions.newest",), ("GET /api/sessions",)),
    "runs answer": Row(
        ("client.answer", "client.views.proposed_edits"),
        ("POST /api/runs/{run}/tool-result", "GET /api/runs/{run}/questions/{question}/edits"),
    ),
    "runs cancel": Row(("client.cancel",), ("POST /api/runs/{run}/cancel",)),
    "runs edit": Row(("client.edit_queued",), ("PATCH /api/runs/{run}",)),
    "runs list": Row(("client.runs",), ("GET /api/runs",)),
    "runs remove": Row(("client.remove_queued",), ("DELETE /api/runs/{run}",)),
    "runs send": Row(("client.send_queued",), ("POST /api/runs/{run}/send",)),
    "runs show": Row(("client.run",), ("GET /api/runs/{run}", "GET /api/runs/{run}/steps")),
    "runs watch": Row(("client.views.follow",), ("GET /api/runs/{run}/events",)),
    "review export": Row(
        ("clew.api.reviews.markdown", "clew.api.reviews.review_shape", "clew.api.reviews.sarif"),
        ("GET /api/reviews/{review}/export",),
    ),
    "review follow": Row(("client.reviews.follow",), ("POST /api/reviews/{review}/rounds",), "follow_up_review"),
    "review import": Row(("clew.api.reviews.import_file",), ("POST /api/imports/reviews",)),
    "review list": Row(("client.reviews.list",), ("GET /api/reviews",), "list_reviews"),
    "review show": Row(("client.reviews.find",), ("GET /api/reviews/{review}",), "get_review"),
    "review start": Row(("clew.api.reviews.start",), ("POST /api/reviews",), "start_review"),
    "pair": Row(
        ("clew.api.pairs.start", "clew.api.pairs.resume", "clew.api.pairs.stop", "clew.api.pairs.follow"),
        (
            "POST /api/pairs",
            "GET /api/pairs",
            "GET /api/pairs/{pair}",
            "GET /api/pairs/{pair}/events",
            "POST /api/pairs/{pair}/stop",
            "POST /api/pairs/{pair}/resume",
            "POST /api/pairs/{pair}/rename",
            "POST /api/pairs/{pair}/fork",
            "DELETE /api/pairs",
        ),
    ),
    "jobs cancel": Row(("client.jobs.cancel",), ("POST /api/jobs/{job}/cancel",)),
    "jobs list": Row(("client.jobs.list",), ("GET /api/jobs",)),
    "jobs logs": Row(("clew.api.jobs.follow",), ("GET /api/jobs/{job}/events",)),
    "jobs retry": Row(("client.jobs.retry",), ("POST /api/jobs/{job}/retry",)),
    "jobs show": Row(("clew.api.jobs.view_job",), ("GET /api/jobs/{job}",)),
    "jobs submit": Row(("clew.api.jobs.submit",), ("POST /api/jobs",)),
    "jobs watch": Row(("clew.api.jobs.follow",), ("GET /api/jobs/{job}/events",)),
    "hooks check": Row(("clew.api.hook_check.check",), ("GET /api/hooks/check",)),
    "hooks fire": Row(("clew.api.hooks.preview",), ("POST /api/hooks/preview", "POST /hooks/{forge}")),
    "hooks events": Row(("client.hooks.events",), ("GET /api/hooks/events",)),
    "hooks sessions": Row(("clew.api.hooks.sessions",), ("GET /api/hooks/sessions",)),
    "hooks import-sessions": Row(
        ("clew.api.hooks.import_sessions",),
        why_no_http="It reads the file of an older tool once, on the machine that had it.",
    ),
    "hooks reset": Row(("clew.api.hooks.reset",), ("POST /api/hooks/reset",)),
    "hooks sweep": Row(("clew.api.hooks.sweep",), ("POST /api/hooks/sweep",)),
    "work": Row(("client.work",), why_no_http="It is a process: a worker, which runs until it is ended."),
    "mcp": Row(
        why_no_api="It is a surface: the MCP server.", why_no_http="It is a surface, which the agent itself starts."
    ),
    "serve": Row(
        why_no_api="It is a surface: the HTTP server.", why_no_http="It is the server that would have to be running."
    ),
    "up": Row(
        ("clew.api.daemons.start", "clew.api.daemons.service", "clew.api.daemons.install"),
        why_no_http="It is the server that would have to be running.",
    ),
    "down": Row(("clew.api.daemons.end",), why_no_http="It ends the server, which only its own user may do."),
    "status": Row(("clew.api.daemons.status",), why_no_http="It also shows that no server runs: GET /api/info."),
    "stats": Row(("client.stats",), ("GET /api/stats",)),
    "stats reviews": Row(("client.reviews.measures",), ("GET /api/stats",)),
    "doctor": Row(("clew.api.doctor.diagnose",), ("GET /api/doctor",)),
    "config path": Row(("clew.api.settings.user_settings_file",), ("GET /api/config",)),
    "config show": Row(("clew.api.settings.shown",), ("GET /api/config",)),
    "demo": Row(
        why_no_api="It is a tour of the other commands, on a scripted agent.", why_no_http="It is shown in a terminal."
    ),
    "completion": Row(
        why_no_api="It is a script for the shell that runs the command.", why_no_http="It is about the terminal alone."
    ),
}
