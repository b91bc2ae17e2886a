"""The bodies of requests about reviews."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from clew.api.wire.reviews import Scope
from clew.server.models.requests import EXPAND, Agent, Cwd, Id, Model, PrintableText, RequestModel, UnicodeText

PATHS_BYTES = 100_000  # of all paths together, because they are passed on a command line


def _file_name(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character")
    return text


def _few(paths: list[str]) -> list[str]:
    if sum(len(path.encode()) for path in paths) > PATHS_BYTES:
        raise ValueError("are too many: name a folder that holds them")
    return paths


FileName = Annotated[UnicodeText, AfterValidator(_file_name), Field(min_length=1, max_length=4096)]
Paths = Annotated[
    list[FileName], AfterValidator(_few), Field(max_length=1000, description="Files and folders, from cwd")
]
Base = Annotated[
    PrintableText, Field(min_length=1, max_length=500, description="A branch, tag or commit to compare with")
]
Message = Annotated[UnicodeText, Field(max_length=100_000, description="The author's reply to the earlier findings")]
Focus = Annotated[UnicodeText, Field(max_length=20_000, description="What the reviewer should look at first")]
Seconds = Annotated[
    float, Field(gt=0, le=1e9, allow_inf_nan=False, description="How long each run of the round may take")
]
Resume = Annotated[
    bool, Field(description="false: use a fresh session and send it all earlier rounds. Default: the setting")
]


class NewRound(RequestModel):
    message: Message | None = None
    agent: Agent | None = Field(None, description="For this round, instead of the review's agent")
    model: Model | None = Field(None, description="Instead of the review's model; each model has its own session")
    resume: Resume | None = None
    timeout_s: Seconds | None = None
    expand: bool | None = EXPAND


class ReviewSpec(NewRound):
    cwd: Cwd | None = Field(None, description="A directory in the repository; required without previous_review_id")
    paths: Paths | None = None
    base: Base | None = None
    scope: Scope | None = Field(None, description="Which changes to review; default: all that are not committed")
    focus: Focus | None = None
    previous_review_id: Id | None = Field(None, description="Start the next round of this review instead of a new one")


class ReviewImport(RequestModel):
    """The files of another tool: one file, or those of a session by their names in its folder."""

    cwd: Cwd = Field(description="The directory in which the other tool ran the agent")
    files: dict[FileName, UnicodeText] = Field(
        min_length=1, max_length=1000, description="The content of each file, by its name: session.json, …"
    )
