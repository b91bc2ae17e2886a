"""`/clear` and `/compact` as prompts of `clew ask`: they act on the thread, and ask the agent nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.cli.ui.formatting import plural
from clew.cli.ui.printing import note, print_json
from clew.cli.ui.progress import Progress
from clew.core.expansion.invocation import CLEAR, session_command
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Thread


async def act_on_session(thread: Thread | None, text: str, *, as_json: bool = False) -> int:
    """Carries the command out in the thread that was named. Returns the exit code."""
    command = session_command(text)
    assert command is not None
    if thread is None:
        raise UsageError(f"/{command.name} needs a thread that exists.", hint="Name it with -t, or give -c.")
    if command.name == CLEAR:
        archived = await thread.clear()
        note(f"{thread.name} begins anew: {plural(archived, 'turn')} archived, nothing deleted")
        if as_json:
            print_json({"thread": thread.name, "archived": archived})
        return 0
    async with Progress() as progress:
        progress.say(f"compacting the session of {thread.name}")
        done = await thread.compact(command.arguments)
    if done.session_id is None:
        note(f"the next turn of {thread.name} would resume no session: there is nothing to compact")
    elif done.is_compacted:
        note(f"the session of {thread.name} is compacted; the thread keeps its turns")
    else:
        note(f"the session of {thread.name} is as it was: the agent found too little in it")
    if as_json:
        print_json({"thread": thread.name, "session_id": done.session_id, "is_compacted": done.is_compacted})
    return 0
