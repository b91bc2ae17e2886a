"""A prompt as the user typed it becomes the prompt that is stored and sent: commands and mentions are replaced by what
they stand for.

Only what a user types is expanded, once, before it is stored (ADR 53). What is stored is never expanded again: so
nothing in a transcript, in an agent's answer or in a text from elsewhere can name a file and have it sent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence

from clew.agents.adapter import CommandFolder
from clew.core.expansion import command_file
from clew.core.expansion.command_file import CommandFile
from clew.core.expansion.expanded import Expanded
from clew.core.expansion.invocation import (
    AS_TEXT,
    BUILT_IN,
    CLEAR,
    COMPACT,
    Invocation,
    dollar_invocation_in,
    invocation_in,
)
from clew.core.expansion.mentions import Mention, mentions_in
from clew.core.images import ImageContent
from clew.core.prompts import fenced
from clew.core.record import Record
from clew.core.runs.events import QuestionAsked
from clew.core.runs.options import Person
from clew.core.thread import Permissions, Thread, Trust
from clew.engine.engine import Engine
from clew.errors import UsageError
from clew.hosts.expansion import command_files, completion, mentioned_files
from clew.hosts.expansion.command_files import FoundCommand
from clew.hosts.expansion.completion import Command
from clew.hosts.expansion.mentioned_files import Access, MentionedFile
from clew.hosts.validation import existing_dir

FILES_NOTE = "The files that are mentioned above with @, as they were when this was written:"
MAX_FILLED_CHARS = 50_000_000  # of a command's file, if each `$` in it stood for all arguments
MAX_MENTIONS = 10_000
NO_TOOLS: tuple[str, ...] = ()
NOT_YET_RUN = "[The output of this command will be here: {command}]"
AN_IMAGE = "[This is an image, which is shown with this prompt.]"
AN_IMAGE_LEFT_OUT = "[This is an image. It cannot be shown here.]"
NOT_YET_READ = "[You will be asked whether this file may be read.]"


CheckImages = Callable[[Sequence[ImageContent]], Awaitable[None]]


class PromptPlace(Record):
    """Where a prompt is typed, and what may be read there."""

    cwd: str
    agent: str
    permissions: Permissions
    trust: Trust


class _Prompt(Record):
    """A prompt of which nothing was run yet."""

    command: FoundCommand | None = None  # None: it is its own text
    texts: tuple[str, ...] = ()  # of the command's file, with the arguments; between each two of them is a block
    blocks: tuple[str, ...] = ()  # shell blocks
    mentions: tuple[Mention, ...] = ()
    tools: tuple[str, ...] = NO_TOOLS  # that the command allows


class Expansion:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def commands(self, cwd: str, agent: str) -> tuple[Command, ...]:
        folders = self._folders(existing_dir(cwd), agent)
        return await asyncio.to_thread(completion.commands, folders)

    async def files(self, cwd: str, prefix: str, limit: int) -> tuple[str, ...]:
        return await asyncio.to_thread(completion.files, existing_dir(cwd), prefix, limit)

    async def expand(
        self,
        text: str,
        place: PromptPlace,
        person: Person | None = None,
        *,
        known: str = "",
        dry_run: bool = False,
        asks: bool = False,
        check_images: CheckImages | None = None,
    ) -> Expanded:
        """Raises UsageError for a command that Clew does not carry out, and for what may not be read or run.

        `person` is asked about files outside the work directory. `known` is a text that the user changed and that
        somebody else may have written: what it mentions is not expanded. `dry_run`: runs no command and asks nobody;
        then `asks` says whether there would be a person. `check_images` is told the images that it mentions, and may
        refuse them. None: the prompt can have none.
        """
        called = (invocation_in(text) or dollar_invocation_in(text)) if known else None
        is_known = called is not None and text[: len(called.name) + 1] in known  # with other arguments, too
        command = None if is_known else await self._command(text, place)
        prompt = command or _Prompt(mentions=await _mentions(text))
        mentions = prompt.mentions
        if known:  # also where it was in code, and so mentioned nothing
            mentions = tuple(each for each in mentions if not _is_in(known, each))
        files = await self._files(mentions, place)
        for file in files:
            await self._check_access(file, place, person, dry_run=dry_run, asks=asks)
        blocks, shown = await self._blocks(files, place, dry_run=dry_run, images=check_images is not None)
        if shown and check_images is not None:
            await check_images(shown)
        # Nothing was run so far: a prompt that is refused has done nothing.
        written = text if prompt.command is None else await self._filled(prompt.command, prompt, place, dry_run=dry_run)
        whole = written + blocks
        return Expanded(whole, None if whole == text else text, prompt.tools, shown)

    # Commands

    def _folders(self, cwd: str, agent: str, only: str | None = None) -> list[CommandFolder]:
        """The agent's own folders first, then those of the others: a command is text, and any agent can read it."""
        environ = self._engine.context.environ
        known = [each for each in self._engine.agents() if self._engine.adapter_of(each) is not None]
        agents = [each for each in sorted(known, key=lambda name: name != agent) if only in (None, each)]
        return [each for name in agents for each in self._engine.adapter(name).command_folders(environ, cwd)]

    async def _command(self, text: str, place: PromptPlace) -> _Prompt | None:
        """The command that the prompt is, checked. None: it is no command."""
        invocation = invocation_in(text)
        if invocation is None:
            return await self._dollar_skill(text, place)
        name = invocation.name
        if name in (CLEAR, COMPACT):
            raise UsageError(f"/{name} acts on a thread and is no prompt.", hint="Send it alone, in a thread.")
        folders = self._folders(place.cwd, place.agent)
        found = await asyncio.to_thread(command_files.find, folders, name)
        if found is None:
            if name not in BUILT_IN and os.path.lexists(f"/{name}"):
                return None  # a path
            raise await asyncio.to_thread(_unknown, name, folders)
        return await self._checked(invocation, found, place)

    async def _dollar_skill(self, text: str, place: PromptPlace) -> _Prompt | None:
        """The skill that `$name` calls, if the agent's plain CLI has such calls. Where there is none, it is text."""
        invocation = dollar_invocation_in(text)
        folders = [folder for folder in self._folders(place.cwd, place.agent, place.agent) if folder.dollar]
        if invocation is None or not folders:
            return None
        found = await asyncio.to_thread(command_files.find, folders, invocation.name)
        return None if found is None else await self._checked(invocation, found, place)

    async def _checked(self, invocation: Invocation, found: FoundCommand, place: PromptPlace) -> _Prompt:
        file = await asyncio.to_thread(command_files.read, found)
        if not file.for_user:
            raise UsageError(f"The skill /{found.name} says that only an agent uses it.", hint="Ask for it in words.")
        is_trusted = not found.folder.of_project or place.trust is Trust.PROJECT
        if len(file.body) + file.body.count("$") * len(invocation.arguments) > MAX_FILLED_CHARS:
            raise UsageError(f"The arguments of /{found.name} are too long for its file: {found.path}.")
        constants = {"CLAUDE_SKILL_DIR": str(found.path.parent)} if found.folder.skills else {}
        texts, commands = await asyncio.to_thread(
            command_file.fill_blocks, file, found.folder.syntax, invocation.arguments, constants
        )
        if found.folder.skills:
            texts[0] = f"Base directory for this skill: {found.path.parent}\n\n{texts[0].lstrip()}"
        mentions = await _mentions(" ".join(texts))  # without what the commands print
        if not is_trusted:
            own = {mention.written for mention in mentions_in(invocation.arguments)}
            await asyncio.to_thread(self._check_untrusted, found, file, commands, place, [
                mention for mention in mentions if mention.written not in own
            ])  # fmt: skip
        for each in commands:
            _check_permitted(each, found, file, place)
        # Under `read-only` no command's file allows more.
        tools = () if place.permissions is Permissions.READ_ONLY else command_file.run_tools(file.allowed_tools)
        return _Prompt(found, tuple(texts), tuple(commands), mentions, tools)

    async def _filled(self, command: FoundCommand, prompt: _Prompt, place: PromptPlace, *, dry_run: bool) -> str:
        """The command's text, with what its shell blocks print."""
        outputs = [await self._output(each, command, place, dry_run=dry_run) for each in prompt.blocks]
        whole = "".join(part for pair in zip(prompt.texts, [*outputs, ""], strict=True) for part in pair).rstrip("\n")
        if not whole.strip():
            raise UsageError(f"The file of /{command.name} is empty: {command.path}.")
        return whole

    def _check_untrusted(
        self,
        found: FoundCommand,
        file: CommandFile,
        commands: Sequence[str],
        place: PromptPlace,
        of_file: list[Mention],
    ) -> None:
        """Raises UsageError if a repository's file would do more than say something."""
        home = self._engine.context.environ.get("HOME")
        what = "runs commands" if commands else "allows tools (allowed-tools)" if file.allowed_tools else ""
        if not what and any(mentioned_files.found(each, place.cwd, home) for each in of_file):
            what = "mentions files"
        if what:
            raise UsageError(
                f"/{found.name} is the repository's and {what}: {found.path}.",
                hint="With --trust project it may; or copy the file to your own commands after you have read it.",
            )

    async def _output(self, command: str, found: FoundCommand, place: PromptPlace, *, dry_run: bool) -> str:
        """What a shell block prints."""
        if dry_run:
            return NOT_YET_RUN.format(command=_one_line(command))
        from clew.hosts.expansion.shell import output_of

        context = self._engine.context
        environ = context.environ
        if place.trust is not Trust.PROJECT:
            environ = await context.guard(environ, place.cwd)  # the repository's git settings name commands too
        return await output_of(command, found.name, cwd=place.cwd, environ=environ, mark=context.new_id())

    # Mentions

    async def _files(self, mentions: Sequence[Mention], place: PromptPlace) -> list[MentionedFile]:
        home = self._engine.context.environ.get("HOME")

        def look() -> list[MentionedFile]:
            found = (mentioned_files.found(mention, place.cwd, home) for mention in mentions)
            return list({(each.path, each.part.first, each.part.last): each for each in found if each}.values())

        return await asyncio.to_thread(look) if mentions else []

    async def _check_access(
        self, file: MentionedFile, place: PromptPlace, person: Person | None, *, dry_run: bool, asks: bool
    ) -> None:
        needed = mentioned_files.access(file, place.cwd, place.permissions, self._engine.settings.hidden)
        shown = mentioned_files.shown(file.mention)
        if needed is Access.REFUSED:
            raise UsageError(
                f"{shown} is outside the work directory {place.cwd}, and this conversation is read-only.",
                hint="Copy the file into the directory, or ask in a thread with other permissions.",
            )
        if needed is Access.FREE:
            return
        if person is None and not (dry_run and asks):
            raise UsageError(
                f"{shown} is outside the work directory {place.cwd}, and nobody can be asked here to allow it.",
                hint="Use clew ask at a terminal, copy the file there, or give the thread the permissions all.",
            )
        if dry_run or person is None:
            return
        read = {"file_path": str(file.path), "mentioned_as": shown}
        asked = QuestionAsked(self._engine.context.new_id(), "Read", read, is_form=False, has_run=False)
        if not (await person(asked)).allow:
            raise UsageError(f"{shown} was not allowed. Nothing was sent.", hint="Write the name without the @.")

    async def _blocks(
        self, files: Sequence[MentionedFile], place: PromptPlace, *, dry_run: bool, images: bool
    ) -> tuple[str, tuple[ImageContent, ...]]:
        """The files' texts, each between two lines that say what it is; and those that are images."""
        if not files:
            return "", ()
        shown = list[ImageContent]()

        def text_of(file: MentionedFile) -> str:
            access = mentioned_files.access(file, place.cwd, place.permissions, self._engine.settings.hidden)
            if dry_run and access is Access.ASK:
                return NOT_YET_READ
            image = mentioned_files.image(file)
            if image is None:
                return mentioned_files.read(file)
            shown.append(image)
            return AN_IMAGE if images else AN_IMAGE_LEFT_OUT

        def read() -> list[str]:
            mentioned_files.check_amount(files, ())
            texts = [text_of(file) for file in files]
            mentioned_files.check_amount(files, texts)
            return texts

        texts = await asyncio.to_thread(read)
        mark = self._engine.context.new_id()[:16]
        labels = [mentioned_files.label(file, place.cwd) for file in files]
        blocks = [fenced(text, mark, label) for text, label in zip(texts, labels, strict=True)]
        return "\n\n".join(["", FILES_NOTE, *blocks]), tuple(shown) if images else ()


def place_of(thread: Thread, agent: str | None = None) -> PromptPlace:
    return PromptPlace(thread.cwd, agent or thread.agent, thread.permissions, thread.trust)


async def _mentions(text: str) -> tuple[Mention, ...]:
    found = await asyncio.to_thread(mentions_in, text)
    if len(found) > MAX_MENTIONS:
        raise UsageError(
            f"The prompt has more than {MAX_MENTIONS:,} words that begin with @.",
            hint="Give the text in a pipe, beside the prompt: what is piped in mentions nothing.",
        )
    return found


def _is_in(known: str, mention: Mention) -> bool:
    return any(f"@{quote}{part.path}" in known for part in mention.candidates for quote in ("", '"'))


def _check_permitted(command: str, found: FoundCommand, file: CommandFile, place: PromptPlace) -> None:
    """Raises UsageError for a shell block that `allowed-tools` does not permit."""
    if place.permissions is Permissions.READ_ONLY:
        raise UsageError(
            f"/{found.name} runs a command, and this conversation is read-only: {_one_line(command)}",
            hint="Ask in a thread with other permissions.",
        )
    if place.permissions is not Permissions.ALL and not command_file.permits(file.allowed_tools, command):
        raise UsageError(
            f"/{found.name} runs a command that its allowed-tools does not permit: {_one_line(command)}",
            hint=f"Add it to allowed-tools in {found.path}, for example Bash({command.split()[0]}:*).",
        )


def _one_line(command: str) -> str:
    return " ".join(command.split())[:120]


def _unknown(name: str, folders: Sequence[CommandFolder]) -> UsageError:
    if name in BUILT_IN:
        return UsageError(f"Clew has no /{name}, which is built into the agent's own CLI.", hint=BUILT_IN[name])
    from clew.core.spelling import suggestion

    known = [CLEAR, COMPACT, *(found.name for found in command_files.commands(folders))]
    return UsageError(f"There is no command /{name}{suggestion(name, known)}.", hint=AS_TEXT)
