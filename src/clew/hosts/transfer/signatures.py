"""SSH signatures of exports and pushes, made and verified by the user's own ssh-keygen.

With ssh-keygen, the key may be in a file, in an SSH agent or on a hardware token, and anybody can verify a signature
without Clew. Accepted signers are given as public keys, or as a file of them that `ssh-keygen` reads (ALLOWED SIGNERS
in its manual).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from clew.core.record import Record
from clew.core.secrets.redaction import blank, find_secrets
from clew.errors import UsageError
from clew.hosts.validation import named_path

# Namespaces of signatures: a signature that was made for a file is not valid for a remote.
FOR_A_FILE, FOR_A_REMOTE = "clew-file", "clew-remote"
BEGIN = b"-----BEGIN SSH SIGNATURE-----"
MAX_SIGNATURE_BYTES = 64 * 1024
MAX_SIGNERS_BYTES = 1024**2
TIMEOUT_S = 120.0  # somebody may be typing a passphrase

_KEY_TYPE = re.compile(r"(?:ssh|ecdsa|sk)-[a-z0-9@.-]+\Z")


class Signer(Record):
    """The key to sign with."""

    key: Path  # a private key, or the public key of one that the SSH agent has
    environ: Mapping[str, str]  # has the address of the SSH agent


class Signers(Record):
    """Those whose signature is accepted."""

    text: str  # one signer per line, in the format that ssh-keygen reads
    environ: Mapping[str, str]


def signer(key: str, environ: Mapping[str, str]) -> Signer:
    """Raises UsageError."""
    path = named_path(key)
    if not path.is_file():
        raise UsageError(f"There is no key {path} to sign with.", hint="Name an SSH key, such as ~/.ssh/id_ed25519.")
    _ssh_keygen(environ)
    return Signer(path, environ)


def signers(entries: Sequence[str], environ: Mapping[str, str]) -> Signers:
    """Each entry is a public key, or the name of a file of them. Raises UsageError."""
    lines = [line for entry in entries for line in (_lines(entry) if not _is_key(entry) else [entry])]
    named = [_named(line.strip(), number) for number, line in enumerate(lines, 1)]
    text = "".join(f"{line}\n" for line in named if line)
    if not text:
        raise UsageError("No signer is named.", hint="Each line has a public key: ssh-ed25519 AAAA… name.")
    _ssh_keygen(environ)
    return Signers(text, environ)


def sign(by: Signer, purpose: str, content: bytes) -> bytes:
    """Blocks. Raises UsageError."""
    done = _run(by.environ, ["-Y", "sign", "-n", purpose, "-f", str(by.key)], content)
    if done.returncode or BEGIN not in done.stdout:
        raise UsageError(f"{by.key} cannot sign: {_last_line(done)}.", hint="Check that it is an SSH key.")
    return done.stdout


def verify(signers: Signers, purpose: str, content: bytes, signature: bytes, what: str) -> str:
    """Returns who signed it. Blocks. Raises UsageError for a signature by somebody else, or of other content."""
    if BEGIN not in signature:
        raise UsageError(
            f"The signature of {what} is not an SSH signature.", hint="Nothing was stored. Have it signed again."
        )
    with tempfile.TemporaryDirectory(prefix="clew-") as folder:
        allowed, file = Path(folder) / "signers", Path(folder) / "signature"
        allowed.write_text(signers.text, "utf-8")
        file.write_bytes(signature)
        found = _run(signers.environ, ["-Y", "find-principals", "-f", str(allowed), "-s", str(file)], b"")
        names = _principals(found.stdout) if found.returncode == 0 else []
        for name in names:
            how = ["-Y", "verify", "-n", purpose, "-f", str(allowed), "-I", name, "-s", str(file)]
            verified = _run(signers.environ, how, content)
            if verified.returncode == 0:
                return _who(name, verified.stdout)
    if names:
        raise UsageError(f"The signature of {what} does not match it.", hint="It was changed after it was signed.")
    hint = "Nothing was stored. Find out whose key signed it."
    raise UsageError(f"{what} is not signed by an accepted signer.", hint=hint)


def _principals(said: bytes) -> list[str]:
    """The names in the signer's line. An exclamation mark begins an exception, which is not a name."""
    return [name for name in said.decode("utf-8", "replace").splitlines() if not name.startswith("!")]


def _who(name: str, verified: bytes) -> str:
    """The signer's name. A name with wildcards gets the key as well, from the output of ssh-keygen: `… with KEY`."""
    if not {"*", "?"} & set(name):
        return name
    return f"{name} ({verified.decode('utf-8', 'replace').strip().rpartition(' with ')[2]})"


def unsigned(what: str) -> UsageError:
    return UsageError(f"{what} is not signed.", hint="Nothing was stored. Its author signs it with --sign KEY.")


def _is_key(line: str) -> bool:
    words = line.split()
    return len(words) > 1 and any(_KEY_TYPE.match(word) for word in words[:3])


def _lines(file: str) -> list[str]:
    path = named_path(file)
    try:
        with path.open(encoding="utf-8") as opened:
            return opened.read(MAX_SIGNERS_BYTES).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"The signers in {path} cannot be read: {why}.", hint="Each line has a public key.") from error


def _named(line: str, number: int) -> str:
    """The line as the ALLOWED SIGNERS format needs it; empty for a blank line or a comment.

    A bare public key, as in a .pub file, gets its own comment as a name, or a number.
    """
    if not line or line.startswith("#"):
        return ""
    words = line.split()
    if not _KEY_TYPE.match(words[0]):
        return line
    name = re.sub(r"[^A-Za-z0-9@._-]", "", "".join(words[2:3])) or f"signer-{number}"
    return f"{name} {' '.join(words[:2])}"


def _run(environ: Mapping[str, str], args: Sequence[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            [_ssh_keygen(environ), *args],
            input=given,
            capture_output=True,
            env=dict(environ),
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError("ssh-keygen took too long.", hint="Is it waiting for a passphrase, or for a token?") from error
    except OSError as error:
        raise UsageError(f"ssh-keygen cannot be started: {error.strerror}.") from error


def _ssh_keygen(environ: Mapping[str, str]) -> str:
    found = shutil.which("ssh-keygen", path=environ.get("PATH"))
    if found is None:
        raise UsageError("Signatures need ssh-keygen, and there is none on the PATH.", hint="Install OpenSSH.")
    return found


def _last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    said = lines[-1].strip().rstrip(".") if lines else f"exit status {done.returncode}"
    return blank(said, find_secrets(said))[0]
