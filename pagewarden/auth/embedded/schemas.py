"""Request and response bodies in the formats of Supabase Auth."""

from __future__ import annotations

import datetime as dt  # noqa: TC003  # pydantic reads the annotations
import uuid  # noqa: TC003  # likewise
from typing import TYPE_CHECKING, Any, Literal, Self

import pydantic
from starlette.responses import JSONResponse

from pagewarden.auth import tokens
from pagewarden.auth.embedded import service
from pagewarden.database import arguments

if TYPE_CHECKING:
    from pagewarden import errors
    from pagewarden.auth.embedded import users


class RequestBody(pydantic.BaseModel):
    """A request body; unknown fields are ignored, as clients send many."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _validate_storable(cls, value: Any) -> Any:  # noqa: ANN401  # JSON
        """Raise for text that Postgres cannot store, also in nested values."""
        arguments.make_arguments({"body": value})
        return value


class Credentials(RequestBody):
    """Email and password, or a refresh token, depending on grant_type."""

    email: str = ""
    password: str = ""
    refresh_token: str = ""


class UserChanges(RequestBody):
    """Changes of a user; `data` is merged into user_metadata, where null removes a key."""

    email: str | None = None
    phone: str | None = None
    password: str | None = None
    current_password: str | None = None
    data: dict[str, Any] | None = None


class RecoveryRequest(RequestBody):
    """Request for a recovery link."""

    email: str


class VerificationRequest(RequestBody):
    """The token of a recovery link, alone or with the address that it was created for."""

    type: Literal["recovery"]
    token_hash: str = ""
    token: str = ""
    email: str = ""


class UserResponse(pydantic.BaseModel):
    """A user."""

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
    def from_user(cls, user: users.User) -> Self:
        """Return what a user may see of their own account."""
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


class SessionResponse(pydantic.BaseModel):
    """Tokens of a session; expires_at is in seconds since 1970."""

    access_token: str
    token_type: Literal["bearer"] = "bearer"  # noqa: S105  # a kind of token
    expires_in: int = service.ACCESS_SECONDS
    expires_at: int
    refresh_token: str
    user: UserResponse

    @classmethod
    def from_tokens(cls, pair: service.TokenPair) -> Self:
        """Return the response that delivers these tokens."""
        return cls(
            access_token=pair.access_token,
            expires_at=pair.expires_at,
            refresh_token=pair.refresh_token,
            user=UserResponse.from_user(pair.user),
        )


class EmptyResponse(pydantic.BaseModel):
    """An empty response."""


class HealthResponse(pydantic.BaseModel):
    """Response of the health check."""

    name: str = "Pagewarden sign-in"
    version: str
    description: str = "Compatible with Supabase Auth"


class SettingsResponse(pydantic.BaseModel):
    """Available sign-in methods: email and password, for users added by an operator."""

    external: dict[str, bool] = {"email": True, "phone": False}
    disable_signup: bool = True
    mailer_autoconfirm: bool = True
    phone_autoconfirm: bool = False
    sms_provider: str = ""
    saml_enabled: bool = False


class KeySet(pydantic.BaseModel):
    """Public keys: empty, since tokens are signed with a secret."""

    keys: list[dict[str, Any]] = []


class WeakPasswordDetails(pydantic.BaseModel):
    """Why a password is weak."""

    reasons: list[str]


class AuthErrorResponse(pydantic.BaseModel):
    """Error body; `code` repeats the HTTP status, `error_code` is for programs."""

    code: int
    error_code: str
    msg: str
    weak_password: WeakPasswordDetails | None = None


def error_response(exc: errors.SignInRejected) -> JSONResponse:
    """Return the error response for a refusal."""
    refusal = AuthErrorResponse(code=exc.status, error_code=exc.code, msg=str(exc))
    if exc.reasons:
        refusal.weak_password = WeakPasswordDetails(reasons=list(exc.reasons))
    headers = {"Retry-After": str(exc.retry_after)} if exc.retry_after is not None else {}
    if exc.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(refusal.model_dump(exclude_none=True), exc.status, headers)
