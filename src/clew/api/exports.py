"""Exports a thread to a file, and imports one from it, on this machine or another.

    exported = await exports.export(client, "fix-login", ExportOptions(passphrase="…"))
    Path(exported.name).write_bytes(exported.content)
    imported = await exports.import_file(client, exported.content, ImportOptions(cwd="~/shop", passphrase="…"))

Both are operations. A cancelled export has written nothing; a cancelled import has stored nothing, neither rows nor
session files.
"""

from __future__ import annotations

import asyncio

from clew.api.client import Client
from clew.api.operations import Operation, OperationFile, Report
from clew.api.wire import transfer as wire
from clew.core.record import Record, replace
from clew.core.thread import Permissions, Trust
from clew.errors import UsageError
from clew.hosts.transfer import encryption, signatures
from clew.hosts.transfer.export import ExportedThread, export_thread
from clew.hosts.transfer.export_file import MAX_FILE_BYTES as MAX_FILE_BYTES
from clew.hosts.transfer.export_file import read_export
from clew.hosts.transfer.imports import ImportedSession, import_thread
from clew.hosts.transfer.imports import ImportResult as ImportResult
from clew.hosts.transfer.secret_scan import LocatedSecret as LocatedSecret
from clew.hosts.transfer.signatures import MAX_SIGNATURE_BYTES as MAX_SIGNATURE_BYTES
from clew.hosts.validation import existing_dir
from clew.store.transfer.codec import PortableThread

FILE_TYPE = "application/octet-stream"
HEAD_BYTES = 1000  # enough of a file to recognise the state file of a pair


class ExportOptions(Record):
    """How a thread is exported. It is encrypted if there is a passphrase, or a recipient."""

    redact: bool = False  # only the history, with secrets blanked
    with_secrets: bool = False  # also if it contains secrets
    passphrase: str | None = None
    recipients: tuple[str, ...] = ()  # age1…, or SSH public keys
    sign: str | None = None  # the path of an SSH key to sign the file with

    @property
    def is_encrypted(self) -> bool:
        return self.passphrase is not None or bool(self.recipients)


class ExportedFile(Record):
    """A file of an exported thread, which is not written yet."""

    name: str  # NAME.clew, or NAME.clew.age if it is encrypted
    content: bytes
    thread: ExportedThread  # what is in it; its own content is empty
    is_encrypted: bool
    signature: bytes | None  # for NAME.clew.sig

    def to_shape(self) -> wire.ExportedFile:
        thread = self.thread
        return wire.ExportedFile.of(
            file=self.name,
            size_bytes=len(self.content),
            threads=thread.threads,
            turns=thread.turns,
            encrypted=self.is_encrypted,
            redacted=thread.redacted,
            secrets=[_secret(each) for each in thread.secrets],
            sessions=[
                wire.ExportedSession.of(each, model=each.model or None, why=each.why or None)
                for each in thread.sessions
            ],
        )


def _secret(secret: LocatedSecret) -> wire.FoundSecret:
    return wire.FoundSecret.of(secret, turn=secret.turn_id)


class ImportOptions(Record):
    """How a file is imported. Permissions are never wider than the settings give a new thread."""

    cwd: str = "."  # the thread's work directory
    name: str | None = None  # its new name; None: its own, with a number if that is taken
    passphrase: str | None = None
    identity: str | None = None  # the text of an age identity, or of an SSH private key
    signature: bytes | None = None  # the content of FILE.sig
    signers: tuple[str, ...] | None = None  # public keys, or files of them; None: the setting remote.signers
    dry_run: bool = False  # only check it, and say what would be done
    file: str = "The file"  # how errors call it


def check_options(options: ExportOptions) -> None:
    """Raises UsageError for options that contradict each other, and for invalid keys. `export` does this, too."""
    if options.passphrase is not None and options.recipients:
        raise UsageError("A passphrase and recipients are two ways to encrypt.", hint="Give one of them.")
    if options.passphrase == "":
        raise UsageError("The passphrase is empty.", hint="Give one, or leave it out.")
    if options.redact and options.with_secrets:
        raise UsageError("Secrets are either blanked or kept.", hint="Give one of redact and with_secrets.")
    encryption.check_recipients(options.recipients)


def export(client: Client, name: str, options: ExportOptions, *, new_id: str | None = None) -> Operation[ExportedFile]:
    """Exports the thread, or both threads of a pair. The operation's `file` has the content, too.

    Raises UsageError. The operation raises NotFound, Busy during a run, and SecretFound.
    """
    check_options(options)
    signer = signatures.signer(options.sign, client._environ) if options.sign is not None else None

    async def work(operation: Operation[ExportedFile], report: Report) -> ExportedFile:
        report.progress(f"reading {name}", 1, 1, thread=name)
        made = await export_thread(
            client.engine,
            name,
            client._environ,
            redacted=options.redact,
            with_secrets=options.with_secrets or options.redact,
        )
        content, signature = made.content, None
        if options.is_encrypted:
            report.progress(f"encrypting {made.name}", thread=made.name)
            content = await asyncio.to_thread(_encrypted, options, content)
        if signer is not None:
            report.progress(f"signing {made.name}", thread=made.name)
            signature = await asyncio.to_thread(signatures.sign, signer, signatures.FOR_A_FILE, content)
        file = f"{made.name}.clew{'.age' if options.is_encrypted else ''}"
        operation.file = OperationFile(file, FILE_TYPE, content)
        about = replace(made, content=b"")  # else an operation that is kept would also hold what was encrypted
        return ExportedFile(file, content, about, options.is_encrypted, signature)

    return client.operations.start("export", work, ExportedFile.to_shape, subjects=(name,), new_id=new_id)


def _encrypted(options: ExportOptions, content: bytes) -> bytes:
    if options.passphrase is not None:
        return encryption.encrypt_with(options.passphrase, content)
    return encryption.encrypt_for(options.recipients, content)


def wants_passphrase(content: bytes) -> bool:
    """Whether the content of an exported file can be decrypted with a passphrase only. Raises UsageError."""
    return encryption.is_encrypted(content) and encryption.wants_passphrase(content)


def import_file(
    client: Client, content: bytes, options: ImportOptions, *, new_id: str | None = None
) -> Operation[ImportResult]:
    """Imports a thread, or both threads of a pair, from the content of an exported file. Nothing in it is trusted.

    Raises UsageError. The operation raises UsageError for a file that is damaged, not signed as required or cannot be
    decrypted, and Conflict for a name that is taken.
    """
    if options.passphrase is not None and options.identity is not None:
        raise UsageError("A passphrase and an identity are two ways to decrypt it.", hint="Give one of them.")
    cwd = existing_dir(options.cwd)
    entries = client.settings.of("remote.signers") if options.signers is None else options.signers
    accepted = signatures.signers(entries, client._environ) if entries else None

    async def work(operation: Operation[ImportResult], report: Report) -> ImportResult:
        signer = None
        if accepted is not None:
            report.progress(f"checking the signature of {options.file}")
            signer = await asyncio.to_thread(_verified, accepted, content, options)
        report.progress(f"reading {options.file}")
        thread = await asyncio.to_thread(_read, content, options)
        report.progress(f"importing {options.file}", threads=[row.get("name") for row in thread.tables["threads"]])
        made = await import_thread(
            client.engine,
            thread,
            cwd=cwd,
            name=options.name,
            permissions=Permissions(client.settings.of("permissions")),
            trust=Trust(client.settings.of("trust")),
            dry_run=options.dry_run,
        )
        return replace(made, signer=signer)

    return client.operations.start(
        "import", work, lambda made: shape_of(made, dry_run=options.dry_run), subjects=(options.file,), new_id=new_id
    )


def shape_of(made: ImportResult, *, dry_run: bool) -> wire.Import:
    return wire.Import.of(
        made,
        dry_run=dry_run,
        threads=[wire.ImportedThread.of(thread) for thread in made.threads],
        new_ids=made.renewed,
        sessions=[_session(each) for each in made.sessions],
    )


def _session(session: ImportedSession) -> wire.ImportedSession:
    file = None if session.path is None else str(session.path)
    return wire.ImportedSession.of(session, model=session.model or None, why=session.why or None, file=file)


def _verified(accepted: signatures.Signers, content: bytes, options: ImportOptions) -> str:
    if options.signature is None:
        raise signatures.unsigned(options.file)
    return signatures.verify(accepted, signatures.FOR_A_FILE, content, options.signature, options.file)


def _read(raw: bytes, options: ImportOptions) -> PortableThread:
    if len(raw) > MAX_FILE_BYTES:
        raise UsageError(f"{options.file} is too large.", hint=f"No export is larger than {MAX_FILE_BYTES:,} bytes.")
    if encryption.is_encrypted(raw):
        raw = _decrypted(raw, options)
    if raw.lstrip()[:1] == b"{" and b'"sessionId"' in raw[:HEAD_BYTES]:
        raise UsageError(
            f"{options.file} is the state file of a pair.",
            hint=f"clew pair --session-file {options.file} continues it.",
        )
    return read_export(raw)


def _decrypted(raw: bytes, options: ImportOptions) -> bytes:
    if options.identity is not None:
        return encryption.decrypt_as(options.identity, raw)
    if not encryption.wants_passphrase(raw):
        raise UsageError("The file is encrypted for somebody's key.", hint="Give yours with --identity.")
    if options.passphrase is None:
        raise UsageError("The file is encrypted.", hint="Give its passphrase.")
    return encryption.decrypt_with(options.passphrase, raw)
