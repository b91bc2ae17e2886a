"""What git says when it fails, in our errors."""

from __future__ import annotations

from clew.engine.git import last_words


def test_an_error_of_git_quotes_no_password() -> None:
    said = "hint: try again\nfatal: unable to access 'https://bot:s3cr3t-0f-the-b0t@forge.example/x.git/': refused\n"
    words = "unable to access 'https://bot:[redacted: password in an address]@forge.example/x.git/': refused"
    assert last_words(said) == words
    assert last_words("fatal: not a git repository\n") == "not a git repository"
