"""The requests of exports, imports, remotes and archives; and the form of an upload."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError
from python_multipart.exceptions import FormParserError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from clew.api.exports import MAX_SIGNATURE_BYTES
from clew.core.record import Record
from clew.errors import UsageError
from clew.server.models.problems import RequestRefused
from clew.server.models.requests import Cwd, Name, PrintableText, RequestModel, UnicodeText

MAX_FIELDS = 10
MAX_NAME_CHARS = 100
MAX_FIELD_BYTES = 100_000  # of a form's field that is not the file

Passphrase = Annotated[UnicodeText, Field(min_length=1, max_length=1000)]
Identity = Annotated[
    UnicodeText,
    Field(min_length=1, max_length=50_000, description="The text of an age identity, or of an SSH private key"),
]
Recipients = Annotated[
    list[Annotated[PrintableText, Field(min_length=1, max_length=2000)]],
    Field(max_length=100, description="Keys to encrypt for: age1…, or SSH public keys"),
]
ThreadNames = Annotated[list[Annotated[PrintableText, Field(min_length=1, max_length=200)]], Field(max_length=1000)]


class ExportRequest(RequestModel):
    redact: bool | None = Field(None, description="Export the history only, with secrets blanked")
    with_secrets: bool | None = Field(None, description="Export it even if it contains secrets")
    passphrase: Passphrase | None = Field(None, description="Encrypt it with this passphrase")
    recipients: Recipients | None = None


class ImportForm(RequestModel):
    """The fields of the form, beside the file."""

    cwd: Cwd
    name: Name | None = Field(None, description="Default: its own name, with a number if that is taken")
    passphrase: Passphrase | None = None
    identity: Identity | None = None
    signature: Annotated[str, Field(max_length=MAX_SIGNATURE_BYTES)] | None = Field(
        None, description="The content of FILE.sig"
    )
    dry_run: Literal["true", "false"] | None = Field(None, description="Only check it, and say what would be done")


class RemoteRequest(RequestModel):
    url: PrintableText | None = Field(
        None, min_length=1, max_length=2000, description="s3://, gs://, az:// or file:///; default: remote.url"
    )
    passphrase: Passphrase | None = None
    identity: Identity | None = None


class PushRequest(RemoteRequest):
    threads: ThreadNames | None = Field(None, description="Names or ids; or give `all`")
    all: bool | None = Field(None, description="Every thread")
    recipients: Recipients | None = None
    with_secrets: bool | None = Field(None, description="Push it even if it contains secrets")
    dry_run: bool | None = None


class PullRequest(RemoteRequest):
    cwd: Cwd = Field(description="The work directory of threads that are not here yet")
    threads: ThreadNames | None = Field(None, description="Names or ids; or give `all`")
    all: bool | None = Field(None, description="Every thread at the remote")
    name: Name | None = Field(None, description="Pull one thread under this name, beside the one that is here")
    dry_run: bool | None = None


class ArchiveRequest(RequestModel):
    thread: PrintableText = Field(min_length=1, max_length=200, description="A thread's or a pair's name, or an id")


class CleanRequest(RequestModel):
    older_than_s: float | None = Field(
        None, gt=0, le=1e10, allow_inf_nan=False, description="Not used for this long; default: as the settings say"
    )
    kind: PrintableText | None = Field(
        None, min_length=1, max_length=40, description="Only threads of this kind; needs `older_than_s`"
    )
    dry_run: bool | None = None


class Upload(Record):
    file: bytes
    name: str  # of the file, for messages
    fields: ImportForm


async def read_upload(request: Request) -> Upload:
    """Reads the form. The guards have limited its size. Raises RequestRefused, and RequestValidationError."""
    try:
        async with request.form(max_files=MAX_FIELDS, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES) as form:
            items = form.multi_items()
            if len(items) > MAX_FIELDS or len({name for name, _ in items}) != len(items):
                raise RequestRefused(422, "The form has a field twice, or too many fields.")
            values = {name: await _value(name, value) for name, value in items}
            called = _called(form.get("file"))
    except (HTTPException, FormParserError, ValueError) as error:  # ValueError: a charset that does not decode a field
        why = f": {error.detail}" if isinstance(error, HTTPException) else "."
        raise RequestRefused(400, f"The form cannot be read{why}") from None
    file = values.pop("file", None)
    if not isinstance(file, bytes):
        raise UsageError("There is no file in the form.", hint="Send the exported file as the field `file`.")
    try:
        return Upload(file, called, ImportForm.model_validate(values))
    except ValidationError as error:
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in error.errors()]) from None


def _called(file: str | UploadFile | None) -> str:
    """The name that the sender gave the file, if it can be shown."""
    name = PurePosixPath(file.filename or "").name if isinstance(file, UploadFile) else ""
    return name if name and name.isprintable() and len(name) <= MAX_NAME_CHARS else "The file"


async def _value(name: str, value: str | UploadFile) -> str | bytes:
    """The file as bytes, any other field as text. A field may be sent as a file, too."""
    if isinstance(value, str):
        return value
    content = await value.read()
    if name == "file":
        return content
    if len(content) > MAX_FIELD_BYTES:
        raise RequestRefused(413, f"A field of the form is larger than {MAX_FIELD_BYTES // 1000} KB.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise RequestRefused(422, "A field of the form is not text.") from None


def upload_schema() -> dict[str, Any]:
    """The form, for the OpenAPI document."""
    made = ImportForm.model_json_schema()
    file = {"type": "string", "format": "binary", "description": "What POST …/export made, or clew threads export"}
    schema = {**made, "properties": {"file": file, **made["properties"]}, "required": ["file", *made["required"]]}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}
