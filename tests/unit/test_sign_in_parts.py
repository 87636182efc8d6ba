"""Parts of the sign-in that need neither a database nor a server."""

from __future__ import annotations

import re
import uuid

import hypothesis
from hypothesis import strategies as st

from pagewarden.local.sign_in import passwords, refresh_tokens

SECRET = "the secret of this test, which is long enough"
TOKENS = refresh_tokens.RefreshTokens(SECRET)
NUMBERS = st.integers(min_value=0, max_value=2**63 - 1)


def test_generated_passwords_are_strong_and_different() -> None:
    """They can be typed from paper."""
    made = {passwords.generate() for _ in range(50)}

    assert len(made) == 50
    for password in made:
        passwords.require_strong(password)
        assert re.fullmatch(r"([a-z2-9]{5}-){3}[a-z2-9]{5}", password)


@hypothesis.given(session=st.uuids(), number=NUMBERS)
def test_refresh_token_says_which_session_and_number_it_is(session: uuid.UUID, number: int) -> None:
    """Whoever made it can read it, and nobody with another secret."""
    token = TOKENS.make(session, number)

    assert TOKENS.read(token) == (session, number)
    assert refresh_tokens.RefreshTokens(SECRET + "x").read(token) is None


@hypothesis.given(number=NUMBERS, place=st.integers(0, 63), letter=st.characters())
def test_refresh_token_that_was_changed_is_none(number: int, place: int, letter: str) -> None:
    """No letter of it can be another one, and none can be put in."""
    token = TOKENS.make(uuid.UUID(int=5), number)
    changed = token[:place] + letter + token[place + 1 :]

    assert changed == token or TOKENS.read(changed) is None
    assert TOKENS.read(token[:place] + letter + token[place:]) is None


@hypothesis.given(text=st.text() | st.text("ABCxyz019-_=", min_size=60, max_size=70))
def test_any_text_is_no_refresh_token(text: str) -> None:
    """Nothing that is sent makes reading fail."""
    assert TOKENS.read(text) is None
