"""The commands that a chat itself carries out. Everything else that is typed goes to the thread, as with `clew ask`."""

from __future__ import annotations

from clew.core.record import Record


class Offered(Record):
    """A command that the prompt completes."""

    name: str  # without the slash
    about: str


HELP = Offered("help", "shows the keys and commands")
NEW = Offered("new", "begins a new thread: /new [NAME]")
THREADS = Offered("threads", "lists threads; /threads NAME continues one")
EXIT = Offered("exit", "leaves the chat")
OWN = (HELP, NEW, THREADS, EXIT)
ALSO_EXIT = "quit"  # what other prompts call it

KEYS = """\
Enter          sends the prompt
Alt-Enter      begins a new line, as Ctrl-J and \\ Enter do
Up, Ctrl-R     an earlier prompt of this project; search in them
@ Tab          completes a path in the work directory
/ Tab          completes a command
Ctrl-C         stops the run, twice at once; clears the prompt
Ctrl-D         leaves the chat, if the prompt is empty"""


def own_command(typed: str) -> tuple[Offered, str] | None:
    """The chat's own command and its argument. None: it is a prompt, also when it has several lines."""
    word, _, argument = typed.strip().partition(" ")
    if not word.startswith("/") or "\n" in typed.strip():
        return None
    name = word.removeprefix("/")
    found = next((each for each in OWN if name == each.name or (each is EXIT and name == ALSO_EXIT)), None)
    return None if found is None else (found, argument.strip())


def help_text() -> str:
    return "\n".join([KEYS, *(f"{f'/{each.name}':<14} {each.about}" for each in OWN)])
