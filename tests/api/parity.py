"""Which call of the Python API and which HTTP route do what each command does, and which MCP tool where an agent can
use it. A command that has none of them says why.
"""

from __future__ import annotations

from clew.core.record import Record


class Row(Record):
    """`api` are paths of callables, `http` are routes of the OpenAPI document, `mcp` is a tool."""

    api: tuple[str, ...] = ()
    http: tuple[str, ...] = ()
    mcp: str | None = None
    why_no_api: str = ""
    why_no_http: str = ""


TABLE: dict[str, Row] = {
    "ask": Row(
        ("clew.api.client.Client.thread", "clew.api.thread.Thread.ask", "clew.api.thread.Thread.explain"),
        ("POST /api/threads", "POST /api/threads/{thread}/runs", "GET /api/threads/{thread}/session"),
        "ask",
    ),
    "threads archive": Row(("clew.api.archives.archive",), ("POST /api/archives",)),
    "threads archives": Row(("clew.api.archives.list_archives",), ("GET /api/archives",)),
    "threads clean": Row(("clew.api.archives.clean",), ("POST /api/archives/clean",)),
    "threads delete": Row(("clew.api.thread.Thread.delete",), ("DELETE /api/threads/{thread}",)),
    "threads diff": Row(("clew.api.branching.compare",), ("GET /api/compare",), "compare_threads"),
    "threads edit": Row(("clew.api.thread.Thread.edit",), ("PATCH /api/threads/{thread}/turns/{turn}",)),
    "threads export": Row(("clew.api.exports.export",), ("POST /api/threads/{thread}/export",)),
    "threads fork": Row(("clew.api.branching.fork",), ("POST /api/threads/{thread}/fork",), "fork_thread"),
    "threads import": Row(("clew.api.exports.import_file",), ("POST /api/imports",)),
    "threads list": Row(("clew.api.views.Views.threads",), ("GET /api/threads",), "list_threads"),
    "threads merge": Row(("clew.api.branching.merge",), ("POST /api/merge",)),
    "threads pull": Row(("clew.api.remotes.pull",), ("POST /api/remotes/pull",)),
    "threads push": Row(("clew.api.remotes.push",), ("POST /api/remotes/push",)),
    "threads rename": Row(("clew.api.thread.Thread.change",), ("PATCH /api/threads/{thread}",)),
    "threads replay": Row(("clew.api.branching.replay",), ("POST /api/threads/{thread}/replay",)),
    "threads restore": Row(("clew.api.archives.restore",), ("POST /api/archives/{archive}/restore",)),
    "threads retry": Row(("clew.api.thread.Thread.retry",), ("POST /api/threads/{thread}/retry",)),
    "threads search": Row(("clew.api.views.Views.search",), ("GET /api/search",), "search_threads"),
    "threads set": Row(("clew.api.thread.Thread.change",), ("PATCH /api/threads/{thread}",)),
    "threads show": Row(("clew.api.views.Views.thread",), ("GET /api/threads/{thread}/view",), "read_thread"),
    "threads truncate": Row(("clew.api.thread.Thread.truncate",), ("POST /api/threads/{thread}/truncate",)),
    "sessions adopt": Row(("clew.api.sessions.adopt",), ("POST /api/sessions/adopt",)),
    "sessions list": Row(("clew.api.sessions.newest",), ("GET /api/sessions",)),
    "runs answer": Row(("clew.api.client.Client.answer",), ("POST /api/runs/{run}/tool-result",)),
    "runs cancel": Row(("clew.api.client.Client.cancel",), ("POST /api/runs/{run}/cancel",)),
    "runs edit": Row(("clew.api.client.Client.edit_queued",), ("PATCH /api/runs/{run}",)),
    "runs list": Row(("clew.api.client.Client.runs",), ("GET /api/runs",)),
    "runs remove": Row(("clew.api.client.Client.remove_queued",), ("DELETE /api/runs/{run}",)),
    "runs send": Row(("clew.api.client.Client.send_queued",), ("POST /api/runs/{run}/send",)),
    "runs show": Row(("clew.api.client.Client.run",), ("GET /api/runs/{run}", "GET /api/runs/{run}/steps")),
    "runs watch": Row(("clew.api.views.Views.follow",), ("GET /api/runs/{run}/events",)),
    "review export": Row(("clew.api.reviews.markdown",), ("GET /api/reviews/{review}/export",)),
    "review follow": Row(
        ("clew.hosts.reviews.reviews.Reviews.follow",), ("POST /api/reviews/{review}/rounds",), "follow_up_review"
    ),
    "review import": Row(("clew.api.reviews.import_file",), ("POST /api/reviews/import",)),
    "review list": Row(("clew.hosts.reviews.reviews.Reviews.list",), ("GET /api/reviews",), "list_reviews"),
    "review show": Row(("clew.hosts.reviews.reviews.Reviews.find",), ("GET /api/reviews/{review}",), "get_review"),
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
        ),
    ),
    "jobs cancel": Row(("clew.hosts.jobs.jobs.Jobs.cancel",), ("POST /api/jobs/{job}/cancel",)),
    "jobs list": Row(("clew.hosts.jobs.jobs.Jobs.list",), ("GET /api/jobs",)),
    "jobs logs": Row(("clew.api.jobs.follow",), ("GET /api/jobs/{job}/events",)),
    "jobs retry": Row(("clew.hosts.jobs.jobs.Jobs.retry",), ("POST /api/jobs/{job}/retry",)),
    "jobs show": Row(("clew.api.jobs.view_job",), ("GET /api/jobs/{job}",)),
    "jobs submit": Row(("clew.api.jobs.submit",), ("POST /api/jobs",)),
    "jobs watch": Row(("clew.api.jobs.follow",), ("GET /api/jobs/{job}/events",)),
    "hooks check": Row(("clew.api.hooks.check",), ("GET /api/hooks/settings",)),
    "hooks fire": Row(("clew.api.hooks.preview",), ("POST /api/hooks/preview", "POST /hooks/{forge}")),
    "hooks events": Row(("clew.hosts.hooks.hooks.Hooks.events",), ("GET /api/hooks/events",)),
    "hooks sessions": Row(("clew.api.hooks.sessions_json",), ("GET /api/hooks/sessions",)),
    "hooks import-sessions": Row(
        ("clew.api.hooks.import_sessions",),
        why_no_http="It reads the file of an older tool once, on the machine that had it.",
    ),
    "hooks reset": Row(("clew.api.hooks.reset",), ("POST /api/hooks/reset",)),
    "hooks sweep": Row(("clew.api.hooks.sweep",), ("POST /api/hooks/sweep",)),
    "work": Row(
        ("clew.api.client.Client.work",), why_no_http="It is a process: a worker, which runs until it is ended."
    ),
    "mcp": Row(
        why_no_api="It is a surface: the MCP server.", why_no_http="It is a surface, which the agent itself starts."
    ),
    "serve": Row(
        why_no_api="It is a surface: the HTTP server.", why_no_http="It is the server that would have to be running."
    ),
    "stats": Row(("clew.api.client.Client.stats",), ("GET /api/stats",)),
    "stats reviews": Row(("clew.hosts.reviews.reviews.Reviews.measures",), ("GET /api/stats",)),
    "doctor": Row(("clew.api.doctor.checks",), ("GET /api/doctor",)),
    "config path": Row(("clew.api.settings.user_file",), ("GET /api/config",)),
    "config show": Row(("clew.api.settings.all_settings",), ("GET /api/config",)),
    "demo": Row(
        why_no_api="It is a tour of the other commands, on a scripted agent.", why_no_http="It is shown in a terminal."
    ),
    "completion": Row(
        why_no_api="It is a script for the shell that runs the command.", why_no_http="It is about the terminal alone."
    ),
}
