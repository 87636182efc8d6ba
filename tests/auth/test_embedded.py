"""Parts of the sign-in that need neither a database nor a server."""

from __future__ import annotations

import re
import uuid

import hypothesis
from hypothesis import strategies as st

from pagewarden.auth.embedded import sessions, users

SECRET = "the secret of this test, which is long enough"
TOKENS = sessions.RefreshTokenCodec(SECRET)
NUMBERS = st.integers(min_value=0, max_value=2**63 - 1)


def test_generated_passwords_are_strong_and_different() -> None:
    """They can be typed from paper."""
    made = {users.generate_password() for _ in range(50)}

    assert len(made) == 50
    for password in made:
        users.require_strong_password(password)
        assert re.fullmatch(r"([a-z2-9]{5}-){3}[a-z2-9]{5}", password)


@hypothesis.given(session=st.uuids(), number=NUMBERS)
def test_refresh_token_contains_session_and_number(session: uuid.UUID, number: int) -> None:
    """It can be read with the secret it was created with, and with no other."""
    token = TOKENS.encode(session, number)

    assert TOKENS.decode(token) == (session, number)
    assert sessions.RefreshTokenCodec(SECRET + "x").decode(token) is None


@hypothesis.given(number=NUMBERS, place=st.integers(0, 63), letter=st.characters())
def test_changed_refresh_token_is_invalid(number: int, place: int, letter: str) -> None:
    """No letter can be replaced or inserted."""
    token = TOKENS.encode(uuid.UUID(int=5), number)
    changed = token[:place] + letter + token[place + 1 :]

    assert changed == token or TOKENS.decode(changed) is None
    assert TOKENS.decode(token[:place] + letter + token[place:]) is None


@hypothesis.given(text=st.text() | st.text("ABCxyz019-_=", min_size=60, max_size=70))
def test_arbitrary_text_is_an_invalid_refresh_token(text: str) -> None:
    """No input raises an error."""
    assert TOKENS.decode(text) is None
