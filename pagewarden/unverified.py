"""What a token says, whoever may have written it."""

from __future__ import annotations

from typing import Any


def claims(token: str) -> dict[str, Any]:
    """Read the claims of a token without a look at its signature; ValueError if it is none."""
    # Brings its cryptography with it, and most who could be asked this never are.
    import jwt  # noqa: PLC0415

    try:
        return jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError as exc:
        raise ValueError(str(exc)) from exc
