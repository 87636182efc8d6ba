"""Translate the errors of Google's library and of HTTP.

Only an error about the page itself fails the page. A service that is unreachable or broken is an
outage. A response that is too slow is a timeout of the page, because a page that is too large for
the service would otherwise be retried forever.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
import pydantic
from google.genai import errors as genai_errors

from pagewarden import errors, retry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pagewarden.ocr.engines.gemini import client

_MAX_QUOTE = 300  # characters of a message of the service

# Daily quotas are reset at midnight in California. In summer this is an hour late, but it needs no
# time zone database.
_RESET_HOUR_UTC = 8


class _QuotaViolation(pydantic.BaseModel):
    quota_id: str = pydantic.Field(default="", alias="quotaId")


class _ErrorDetail(pydantic.BaseModel):
    """The fields of ErrorInfo, RetryInfo and QuotaFailure that are used here."""

    reason: str = ""
    retry_delay: str = pydantic.Field(default="", alias="retryDelay")
    violations: list[_QuotaViolation] = []


class _ErrorBody(pydantic.BaseModel):
    message: str = ""
    status: str = ""
    details: list[_ErrorDetail] = []

    @property
    def quoted_message(self) -> str:
        """Return the shortened message of the service."""
        return f"response: {self.message[:_MAX_QUOTE]!r}" if self.message else "no reason given"


class _Body(pydantic.BaseModel):
    error: _ErrorBody


@contextlib.contextmanager
def translate_errors(clock: client.Clock, model: str) -> Iterator[None]:
    """Raise PagewardenError for errors of Google's library and of HTTP."""
    try:
        yield
    except genai_errors.APIError as exc:
        raise _from_api_error(exc, clock, model) from exc
    except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
        raise errors.EngineUnavailable(
            f"Gemini cannot be reached ({exc}); check the network and PAGEWARDEN_GEMINI_BASE_URL"
        ) from exc
    except httpx.TimeoutException as exc:
        raise _timeout_error() from exc
    except (httpx.RequestError, UnicodeDecodeError) as exc:  # the latter from a binary body
        raise errors.EngineUnavailable(
            f"Gemini sent an invalid response ({exc}); try again"
        ) from exc


def _from_api_error(
    exc: genai_errors.APIError, clock: client.Clock, model: str
) -> errors.PagewardenError:
    fault = _parse_fault(exc)
    if _is_key_error(exc.code, fault):
        return errors.ApiKeyRejected(
            f"Gemini rejected the API key; check PAGEWARDEN_GEMINI_API_KEY ({fault.quoted_message})"
        )
    match exc.code:
        case 400 | 413 | 422:
            return errors.PageRejected(
                f"Gemini rejected this page; read it with another engine ({fault.quoted_message})"
            )
        case 404:
            return errors.EngineNotInstalled(
                f"Gemini has no model {model!r} here; check PAGEWARDEN_GEMINI_MODEL and "
                f"PAGEWARDEN_GEMINI_BASE_URL ({fault.quoted_message})"
            )
        case 429:
            return _rate_limit_error(exc, fault, clock.utc_now())
        case 408 | 504:
            return _timeout_error()
        case _:
            return errors.EngineUnavailable(
                f"Gemini failed with HTTP {exc.code} ({fault.quoted_message})"
            )


def _parse_fault(exc: genai_errors.APIError) -> _ErrorBody:
    try:
        return _Body.model_validate(exc.details).error
    except pydantic.ValidationError:  # the response of a proxy
        return _ErrorBody(message=str(exc.message or ""))


def _is_key_error(code: int, error_body: _ErrorBody) -> bool:
    """Tell whether the key or the account is rejected, not the page; any of them may be a 400."""
    if code != 400:
        return code in {401, 403}
    about_key = any(detail.reason.startswith("API_KEY_") for detail in error_body.details)
    return about_key or error_body.status == "FAILED_PRECONDITION"


def _timeout_error() -> errors.ReadingTimedOut:
    return errors.ReadingTimedOut(
        "the request to Gemini timed out; try again later, or increase "
        "PAGEWARDEN_GEMINI_TIMEOUT_SECONDS"
    )


def _rate_limit_error(
    exc: genai_errors.APIError, error_body: _ErrorBody, now: datetime
) -> errors.RateLimited:
    header = exc.response.headers.get("Retry-After", "")
    waits = [retry.parse_seconds(detail.retry_delay) for detail in error_body.details]
    waits += [retry.parse_retry_after(header, now)]
    if _is_daily(error_body):  # its RetryInfo names the next minute nevertheless
        waits.append(_seconds_until_reset(now))
    retry_after = max((wait for wait in waits if wait is not None), default=None)
    when = "later" if retry_after is None else f"in {retry_after:.0f} s"
    return errors.RateLimited(
        f"the Gemini quota is exhausted; try again {when} ({error_body.quoted_message})",
        retry_after=retry_after,
    )


def _is_daily(error_body: _ErrorBody) -> bool:
    return any("PerDay" in v.quota_id for detail in error_body.details for v in detail.violations)


def _seconds_until_reset(now: datetime) -> float:
    new_day = now.replace(hour=_RESET_HOUR_UTC, minute=0, second=0, microsecond=0)
    if new_day <= now:
        new_day += timedelta(days=1)
    return (new_day - now).total_seconds()
