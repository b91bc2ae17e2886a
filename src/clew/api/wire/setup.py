"""Settings, and what `clew doctor` finds."""

from __future__ import annotations

from typing import Annotated, Any

from clew.api.wire.shape import Doc, Shape

NOT_KNOWN = "null if the store could not be opened"


class ConfigSetting(Shape):
    """A setting, without its password if it has one."""

    name: str
    value: Annotated[Any, Doc("A text, a number, true or false, a list of texts, or null for none")]
    source: Annotated[str, Doc("`default`, `environment CLEW_…`, the path of a clew.toml, or `flag`")]
    variable: Annotated[str, Doc("The environment variable that sets it")]
    help: str


class Config(Shape):
    items: list[ConfigSetting]
    warnings: Annotated[list[str], Doc("Settings that have no effect, and why")]


class DoctorAgent(Shape):
    """An agent that was found."""

    name: str
    path: str
    found_by: Annotated[str, Doc("How it was found: `setting`, `PATH`, the name of a package, …")]
    product: Annotated[str | None, Doc(NOT_KNOWN)]
    version: Annotated[str | None, Doc(NOT_KNOWN)]
    login: Annotated[str, Doc("`not checked`: only a request to the model can check it")]
    resume: Annotated[bool | None, Doc("Whether it can resume sessions; null if the store could not be opened")]
    choose_id: Annotated[bool | None, Doc("Whether Clew chooses the ids of its sessions")]
    asks: Annotated[bool | None, Doc("Whether it asks for permissions")]
    sessions: Annotated[str | None, Doc("The folder of its sessions")]


class DoctorStore(Shape):
    path: Annotated[str, Doc("The file or the address, without its password")]
    only_owner_reads: bool
    problems: Annotated[list[str] | None, Doc("What is wrong in the database; null: not checked, as by a daemon")]


class DoctorConfig(Shape):
    user_file: str | None
    project_file: str | None


class DoctorRuns(Shape):
    active: int
    left_by_a_crash: int
    free_slots: Annotated[int, Doc("How many more agents may run on this machine now")]
    max_agents: int


class DoctorProblem(Shape):
    problem: str
    fix: Annotated[str, Doc("What to do; `-`: not known")]


class DoctorReport(Shape):
    """What was checked, and each problem with a way to fix it."""

    ok: Annotated[bool, Doc("There are no problems")]
    agents: list[DoctorAgent]
    store: DoctorStore
    config: DoctorConfig
    runs: Annotated[DoctorRuns | None, Doc(NOT_KNOWN)]
    problems: list[DoctorProblem]
    notes: Annotated[list[str], Doc("Worth knowing, but not problems")]
