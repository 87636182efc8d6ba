"""What the routes take and give, in the shapes of Supabase Auth."""

from __future__ import annotations

import datetime as dt  # noqa: TC003  # pydantic reads the annotations
import uuid  # noqa: TC003  # likewise
from typing import TYPE_CHECKING, Any, Literal, Self

import pydantic
from starlette.responses import JSONResponse

from pagewarden import tokens
from pagewarden.database import arguments
from pagewarden.local.sign_in import grants

if TYPE_CHECKING:
    from pagewarden import errors
    from pagewarden.local.sign_in import users


class Body(pydantic.BaseModel):
    """What a request says; what it says besides is passed over, as clients say many things."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _must_be_storable(cls, value: Any) -> Any:  # noqa: ANN401  # JSON
        """Refuse text that Postgres cannot store, however deep it hides."""
        arguments.make_arguments({"body": value})
        return value


class Credentials(Body):
    """An address and a password, or a refresh token, as grant_type says."""

    email: str = ""
    password: str = ""
    refresh_token: str = ""


class UserChanges(Body):
    """What a person changes; data is added to user_metadata, null takes a key away."""

    email: str | None = None
    phone: str | None = None
    password: str | None = None
    current_password: str | None = None
    data: dict[str, Any] | None = None


class Recovery(Body):
    """Whose password is lost."""

    email: str


class Verification(Body):
    """The token of a recovery link, by itself or with the address it was made for."""

    type: Literal["recovery"]
    token_hash: str = ""
    token: str = ""
    email: str = ""


class UserAnswer(pydantic.BaseModel):
    """A person."""

    id: uuid.UUID
    aud: str = tokens.AUDIENCE
    role: str = tokens.Role.AUTHENTICATED
    email: str | None
    phone: str = ""
    app_metadata: dict[str, Any]
    user_metadata: dict[str, Any]
    identities: list[dict[str, Any]] = []
    confirmed_at: dt.datetime | None
    email_confirmed_at: dt.datetime | None
    last_sign_in_at: dt.datetime | None
    created_at: dt.datetime
    updated_at: dt.datetime
    is_anonymous: bool = False

    @classmethod
    def of(cls, user: users.User) -> Self:
        """Show what a person may see of themselves."""
        return cls(
            id=user.id,
            email=user.email,
            app_metadata=dict(user.app_metadata),
            user_metadata=dict(user.user_metadata),
            confirmed_at=user.email_confirmed_at,
            email_confirmed_at=user.email_confirmed_at,
            last_sign_in_at=user.last_sign_in_at,
            created_at=user.created_at,
            updated_at=user.updated_at,
        )


class SessionAnswer(pydantic.BaseModel):
    """Tokens of somebody who was let in; expires_at is in seconds since 1970."""

    access_token: str
    token_type: Literal["bearer"] = "bearer"  # noqa: S105  # a kind of token
    expires_in: int = grants.ACCESS_SECONDS
    expires_at: int
    refresh_token: str
    user: UserAnswer

    @classmethod
    def of(cls, grant: grants.Grant) -> Self:
        """Hand over what was granted."""
        return cls(
            access_token=grant.access_token,
            expires_at=grant.expires_at,
            refresh_token=grant.refresh_token,
            user=UserAnswer.of(grant.user),
        )


class Nothing(pydantic.BaseModel):
    """An answer that says nothing."""


class Health(pydantic.BaseModel):
    """That the sign-in works."""

    name: str = "Pagewarden sign-in"
    version: str
    description: str = "Answers as Supabase Auth does"


class SettingsAnswer(pydantic.BaseModel):
    """What ways in there are: the address with a password, for people who were added."""

    external: dict[str, bool] = {"email": True, "phone": False}
    disable_signup: bool = True
    mailer_autoconfirm: bool = True
    phone_autoconfirm: bool = False
    sms_provider: str = ""
    saml_enabled: bool = False


class KeySet(pydantic.BaseModel):
    """Public keys: none, since tokens are signed with a secret."""

    keys: list[dict[str, Any]] = []


class Weakness(pydantic.BaseModel):
    """What is weak about a password."""

    reasons: list[str]


class Refusal(pydantic.BaseModel):
    """Why something was not done; code is the status once more, error_code a word for programs."""

    code: int
    error_code: str
    msg: str
    weak_password: Weakness | None = None


def refuse(exc: errors.SignInRefused) -> JSONResponse:
    """Make the answer of a refusal."""
    refusal = Refusal(code=exc.status, error_code=exc.code, msg=str(exc))
    if exc.reasons:
        refusal.weak_password = Weakness(reasons=list(exc.reasons))
    headers = {"Retry-After": str(exc.retry_after)} if exc.retry_after is not None else {}
    if exc.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(refusal.model_dump(exclude_none=True), exc.status, headers)
