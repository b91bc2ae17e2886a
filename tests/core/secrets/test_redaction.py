"""What looks like a secret is blanked, and other text is not changed. All secrets here are invented."""

from __future__ import annotations

import pytest

from clew.core.secrets.redaction import gives_away, redact, secret_values

LONG = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7d"

SECRETS = {
    "anthropic": f"sk-ant-api03-{LONG}-{LONG}AA",
    "openai": f"sk-proj-{LONG}",
    "old openai": f"sk-{LONG}",
    "github": f"ghp_{LONG}"[:40],
    "github fine-grained": f"github_pat_11AAAAAAA0{LONG}",
    "gitlab": f"glpat-{LONG}"[:26],
    "slack": "xoxb-123456789012-1234567890123-abcDEFghiJKLmnoPQRstuVWX",
    "slack hook": "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    "aws id": "AKIAIOSFODNN7EXAMPLE",
    "google": f"AIza{LONG}"[:39],
    "google oauth": f"ya29.{LONG}",
    "stripe": f"sk_live_{LONG}"[:32],
    "npm": f"npm_{LONG}"[:40],
    "pypi": f"pypi-AgEIcHlwaS5vcmc{LONG}",
    "hugging face": f"hf_{LONG}"[:37],
    "sendgrid": f"SG.{LONG[:22]}.{LONG}",
    "groq": f"gsk_{LONG}",
    "xai": f"xai-{LONG}",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "telegram": "123456789:AAEhBP0av28aaaaaaaaaaaaaaaaaaaaaaaa",
    "age": "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ",
    "private key": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
    "cut private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA",
}

IN_PLACE = {
    "bearer": ("curl -H 'Authorization: Bearer opaque.0123456789abcdef'", "opaque.0123456789abcdef"),
    "basic": ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="),
    "json header": ('{"authorization": "token 0123456789abcdef"}', "0123456789abcdef"),
    "cookie": ("Cookie: session=0123456789abcdef; theme=dark", "0123456789abcdef"),
    "url": ("git clone https://me:hunter2hunter2@example.org/x.git", "hunter2hunter2"),
    "database": ("postgresql://clew:s3cr3t@db.example/clew", "s3cr3t"),
    "no user": ("redis://:p4ssw0rd@cache.example:6379", "p4ssw0rd"),
    "environment": ("export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"),
    "python": ("api_key = 'abcdefabcdef'", "abcdefabcdef"),
    "yaml": ('password: "correct horse battery"', "correct horse battery"),
    "json": ('{"client_secret": "abcdef123456"}', "abcdef123456"),
}

INNOCENT = [
    "The token count is 1234567, and the key idea is simple.",
    "Use https://example.org:8080/path@2 and mailto:me@example.org.",
    "def passwords(): return None",
    "task-sk-1 risk-based sk-short",
    "commit 0123456789abcdef0123456789abcdef01234567",
    "uuid 01a1dfdb-189e-7681-b079-d4ea71ee7974",
    "API_KEY=$SECRET and API_KEY=<yours>",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "The authorization is needed: see the page.",
]


@pytest.mark.parametrize("kind", SECRETS)
def test_secret_is_blanked_and_counted(kind: str) -> None:
    text, count = redact(f"before {SECRETS[kind]}\nafter")
    assert count == 1
    assert SECRETS[kind] not in text
    assert text.startswith("before [redacted: ")
    if "cut" not in kind:
        assert text.endswith("]\nafter")


@pytest.mark.parametrize("kind", IN_PLACE)
def test_secret_is_blanked_in_its_place(kind: str) -> None:
    whole, secret = IN_PLACE[kind]
    text, count = redact(f"before\n{whole}\nafter")
    assert secret not in text
    assert count == 1
    assert text.startswith("before\n") and text.endswith("\nafter")


@pytest.mark.parametrize("text", INNOCENT)
def test_innocent_text_is_left_alone(text: str) -> None:
    assert redact(text) == (text, 0)


def test_redacting_again_changes_nothing() -> None:
    every = "\n".join([*SECRETS.values(), *(whole for whole, _ in IN_PLACE.values())])
    once, _ = redact(every)
    assert redact(once) == (once, 0)


def test_known_values_are_blanked_whatever_they_look_like() -> None:
    assert redact("it is: correct-horse-battery!", ["correct-horse-battery"]) == ("it is: [redacted: value]!", 1)


SECRET_OF_THE_ENVIRONMENT = {
    "OPENAI_API_KEY": "0123456789abcdef",
    "MY_PASSWORD": "a longer secret value",
    "DB_PASSWORD": "hunter2345",  # short, but not a word
    "MYSQL_PWD": "n0t-a-place",
    "SMTP_PASS": "n0t-a-word",
    "GITHUB_PAT": "0123456789abcdef0",
    "AWS_SECRET_ACCESS_KEY": "/Ab9+longbase64secret==",  # begins like a path, but is none
    "DOT_TOKEN": ".begins-with-a-dot-1",
    "WILD_PASSWORD": "~Tr0ub4dor&3",
    "HTTP_AUTHORIZATION": "Basic QWxhZGRpbjpvcGVu",
    "SESSION_COOKIE": "sid=0123456789",
}

NO_SECRET = {
    "SHORT_TOKEN": "dummy12",
    "POSTGRES_PASSWORD": "postgres",  # an ordinary word, which many conversations contain
    "MINIO_SECRET_KEY": "minioadmin",
    "APP_SECRET": "change-me",
    "MAX_TOKENS": "20261115",
    "EMPTY_TOKEN": "",
    "HOME": "/home/somebody-with-a-long-name",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PWD": "/somewhere/else-than-there",
    "OLDPWD": "/somewhere/else-than-there",
    "SSH_AUTH_SOCK": "/run/user/1000/ssh-agent.socket-gone",
    "XAUTHORITY": "/home/somebody/.Xauthority-gone",
    "GPG_KEY": "A035C8C19219BA821ECEA86B64E628F8D684696D",
    "SIGNING_KEY": "/there/keys/signing.pem",
    "DEPLOY_KEY": "~/keys/not-there.pem",
    "OTHER_KEY": "keys/there/relative.pem",
    "TOKEN_FILE": "/run/secrets/not-there-any-more",
    "GIT_ASKPASS": "/usr/bin/some-askpass-program",
    "KEYBOARD_LAYOUT": "some-long-layout-v2",
    "GIT_AUTHOR_NAME": "Jane Example the 2nd",
    "COMPASS_MODE": "north-and-south-42",
    "LC_ALL": "de_DE.UTF-8 and more",
    "DOCS_URL": "http://localhost:8080/path@2",
    "REPOSITORY": "ssh://git@example.org/some/place.git",
}


def secrets_in(environ: dict[str, str]) -> dict[str, str]:
    return secret_values(environ.items(), lambda path: "/there/" in path)


@pytest.mark.parametrize("name", SECRET_OF_THE_ENVIRONMENT)
def test_secrets_of_the_environment_are_recognised_by_name(name: str) -> None:
    value = SECRET_OF_THE_ENVIRONMENT[name]
    assert secrets_in({name: value, **NO_SECRET}) == {value: name}


@pytest.mark.parametrize("name", NO_SECRET)
def test_harmless_values_of_the_environment_are_not_secrets(name: str) -> None:
    assert secrets_in({name: NO_SECRET[name]}) == {}


def test_password_in_an_address_is_secret_under_any_name() -> None:
    environ = {"DATABASE_URL": "postgres://app:s3cret%2Fpass@db/x", "SMALL_DSN": "redis://u:pw@cache"}
    found = secrets_in(environ)
    assert set(found) == {"://app:s3cret%2Fpass@", "s3cret%2Fpass", "s3cret/pass", "://u:pw@"}
    assert set(found.values()) == {"DATABASE_URL", "SMALL_DSN"}
    assert list(found) == sorted(found, key=len, reverse=True), "the longest is blanked first"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("my-key-is-akiaiosfodnn7example", "AKIAIOSFODNN7EXAMPLE"),
        ("use-sk-ant-api03", "sk-ant-api03-x1Y2z3x1Y2z3"),
        ("my-password-hunter2-works", "hunter2"),
        ("key-AKIAIOSFODNN7EXAMPLE", "something else"),
    ],
)
def test_name_that_was_made_from_a_secret_gives_it_away(name: str, secret: str) -> None:
    assert gives_away(name, [secret])


def test_name_of_ordinary_words_gives_nothing_away() -> None:
    assert not gives_away("fix-the-login-page", ["AKIAIOSFODNN7EXAMPLE", "hunter2345", "fix", "ge"])


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    "piece", ["a" * 50, "a:", "http://a:", "secret", "key = ", "-----BEGIN PRIVATE KEY-----\n", "Bearer ", "eyJ", '"']
)
def test_a_long_text_is_read_to_its_end(piece: str) -> None:
    """Takes less than a second. Patterns that backtrack would need 3 minutes or more, and the test would time out."""
    redact(piece * (1_000_000 // len(piece)))
