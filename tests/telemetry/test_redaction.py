"""Redaction of secrets, by pattern and by registered value."""

from __future__ import annotations

import json
import urllib.parse
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagewarden.telemetry import redaction

if TYPE_CHECKING:
    from collections.abc import Iterator

PRINTABLE = st.characters(
    min_codepoint=33,
    max_codepoint=0x2FF,
    categories=("L", "N", "P", "S"),
    exclude_characters=redaction.HIDDEN,
)


@pytest.fixture(autouse=True, scope="module")
def _own_secrets() -> Iterator[None]:
    """Keep the secrets registered here out of other tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(redaction, "_registered", set())
        yield


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("postgresql://ada:hidden@db:5432/x is away", "postgresql://ada:***@db:5432/x is away"),
        ("smtps://ada:hid@den@mail.example", "smtps://ada:***@mail.example"),
        ("redis://:hidden@cache/0", "redis://:***@cache/0"),
        ("host=db password=hidden dbname=x", "host=db password=*** dbname=x"),
        ("GET /files/v1/a.png?signature=hidden&x=1", "GET /files/v1/a.png?signature=***&x=1"),
        ("?X-Amz-Security-Token=hidden", "?X-Amz-Security-Token=***"),
        ("Authorization: Bearer hidden-x", "Authorization: Bearer ***"),
        ("https://hooks.slack.com/services/T0/B0/hidden", "https://hooks.slack.com/***"),
        ("a token eyJhbGciOi.eyJzdWIi.c2lnbmF0 in words", "a token *** in words"),
        ("sb_secret_hidden0 and whsec_hidden0+/=", "*** and ***"),
    ],
)
def test_patterns_of_secrets_are_redacted(text: str, redacted: str) -> None:
    """The rest of the text remains."""
    assert redaction.redact_text(text) == redacted
    assert redaction.redact_text(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "page 3 of letter.pdf could not be read: it is broken",
        "http://127.0.0.1:54321/functions/v1/documents",
        "ada@example.org was notified at 10:32",
        "there is no lane nope; known are image, pdf (basic=no)",
    ],
)
def test_ordinary_text_is_unchanged(text: str) -> None:
    """Redaction has no false positives here."""
    assert redaction.redact_text(text) == text


def test_fields_with_secret_names_are_redacted_at_any_depth() -> None:
    """Numbers are not: a count of tokens is no secret."""
    found = redaction.redact(
        {"lock_token": "x", "tokens": 7, "headers": {"Cookie": "x"}, "pages": [{"api_key": "x"}]}
    )
    assert found == {
        "lock_token": "***", "tokens": 7, "headers": {"Cookie": "***"},
        "pages": [{"api_key": "***"}],
    }  # fmt: skip


@given(
    password=st.text(PRINTABLE, min_size=12, max_size=40),
    before=st.text(PRINTABLE, max_size=5),
    after=st.text(PRINTABLE, max_size=5),
)
def test_registered_secret_is_redacted_everywhere(password: str, before: str, after: str) -> None:
    """As such, inside a URL, and percent-encoded."""
    encoded = urllib.parse.quote(password, safe="")
    redaction.register_secrets(f"postgresql://ada:{encoded}@db.example.org/x")
    shown = json.dumps(
        redaction.redact({"a": f"{before}{password}{after}", "b": [f"({encoded})"]}),
        ensure_ascii=False,
    )
    assert json.dumps(password, ensure_ascii=False)[1:-1] not in shown
    assert encoded not in shown


def test_short_secret_is_not_redacted() -> None:
    """A database password may equal the database name."""
    redaction.register_secrets("postgresql://postgres:postgres@db/postgres")
    assert redaction.redact_text("connected to postgres") == "connected to postgres"
    assert (
        redaction.redact_text("postgresql://postgres:postgres@db/x")
        == "postgresql://postgres:***@db/x"
    )
