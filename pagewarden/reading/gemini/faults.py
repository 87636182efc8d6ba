"""What goes wrong between us and the service, as errors of ours.

Only an answer that speaks of the page itself is held against the page. A service that cannot be
reached, or is broken, is an outage; one that was reached and is only too slow is a time-out,
because a page that is too much for it would otherwise be tried forever.
"""

from __future__ import annotations

import contextlib
import email.utils
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import httpx
import pydantic
from google.genai import errors as genai_errors

from pagewarden import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pagewarden.reading.gemini import pace

_QUOTED = 300  # characters of the service's own words in a message of ours

# Quotas of a day begin anew at midnight in California; this is an hour late in summer, and
# needs no table of time zones.
_NEW_DAY_HOUR_UTC = 8


class _Violation(pydantic.BaseModel):
    quota_id: str = pydantic.Field(default="", alias="quotaId")


class _Detail(pydantic.BaseModel):
    """The fields of ErrorInfo, RetryInfo and QuotaFailure that matter here."""

    reason: str = ""
    retry_delay: str = pydantic.Field(default="", alias="retryDelay")
    violations: list[_Violation] = []


class _Fault(pydantic.BaseModel):
    message: str = ""
    status: str = ""
    details: list[_Detail] = []

    @property
    def quoted(self) -> str:
        """Shorten the service's own words."""
        return f"Gemini says {self.message[:_QUOTED]!r}" if self.message else "no reason was given"


class _Body(pydantic.BaseModel):
    error: _Fault


@contextlib.contextmanager
def translated(clock: pace.Clock, model: str) -> Iterator[None]:
    """Raise errors of ours for those of Google's library and of HTTP."""
    try:
        yield
    except genai_errors.APIError as exc:
        raise _of_answer(exc, clock, model) from exc
    except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
        raise errors.EngineAway(
            f"Gemini cannot be reached ({exc}); check the network and PAGEWARDEN_GEMINI_BASE_URL"
        ) from exc
    except httpx.TimeoutException as exc:
        raise _too_slow() from exc
    except (httpx.RequestError, UnicodeDecodeError) as exc:  # the latter from a body of no text
        raise errors.EngineAway(f"what Gemini sent is broken ({exc}); try again") from exc


def _of_answer(exc: genai_errors.APIError, clock: pace.Clock, model: str) -> errors.PagewardenError:
    fault = _fault(exc)
    if _is_about_the_key(exc.code, fault):
        return errors.KeyRefused(
            f"Gemini refuses the key; check PAGEWARDEN_GEMINI_API_KEY ({fault.quoted})"
        )
    match exc.code:
        case 400 | 413 | 422:
            return errors.AnswerRefused(
                f"Gemini will not read this page; read it with another engine ({fault.quoted})"
            )
        case 404:
            return errors.EngineMissing(
                f"Gemini has no model {model!r} here; check PAGEWARDEN_GEMINI_MODEL and "
                f"PAGEWARDEN_GEMINI_BASE_URL ({fault.quoted})"
            )
        case 429:
            return _rate_limited(exc, fault, clock.utc())
        case 408 | 504:
            return _too_slow()
        case _:
            return errors.EngineAway(f"Gemini failed with HTTP {exc.code} ({fault.quoted})")


def _fault(exc: genai_errors.APIError) -> _Fault:
    try:
        return _Body.model_validate(exc.details).error
    except pydantic.ValidationError:  # a proxy answered in words of its own
        return _Fault(message=str(exc.message or ""))


def _is_about_the_key(code: int, fault: _Fault) -> bool:
    """Tell a bad key, or an account that may not be used, from a bad page: all may be a 400."""
    if code != 400:
        return code in {401, 403}
    of_key = any(detail.reason.startswith("API_KEY_") for detail in fault.details)
    return of_key or fault.status == "FAILED_PRECONDITION"


def _too_slow() -> errors.ReadingTimedOut:
    return errors.ReadingTimedOut(
        "Gemini did not answer in time; try later, or raise PAGEWARDEN_GEMINI_TIMEOUT_SECONDS"
    )


def _rate_limited(exc: genai_errors.APIError, fault: _Fault, now: datetime) -> errors.RateLimited:
    header = exc.response.headers.get("Retry-After", "")
    waits = [_seconds(detail.retry_delay) for detail in fault.details]
    waits += [_seconds_of_header(header, now)]
    if _is_of_the_day(fault):  # its RetryInfo speaks of the next minute all the same
        waits.append(_until_new_day(now))
    retry_after = max((wait for wait in waits if wait is not None), default=None)
    when = "later" if retry_after is None else f"in {retry_after:.0f} s"
    return errors.RateLimited(
        f"Gemini's quota is used up; try {when} ({fault.quoted})", retry_after=retry_after
    )


def _is_of_the_day(fault: _Fault) -> bool:
    return any("PerDay" in v.quota_id for detail in fault.details for v in detail.violations)


def _until_new_day(now: datetime) -> float:
    new_day = now.replace(hour=_NEW_DAY_HOUR_UTC, minute=0, second=0, microsecond=0)
    if new_day <= now:
        new_day += timedelta(days=1)
    return (new_day - now).total_seconds()


def _seconds(duration: str) -> float | None:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)s?", duration.strip())
    return float(match[1]) if match else None


def _seconds_of_header(value: str, now: datetime) -> float | None:
    """Read a Retry-After, which is a number of seconds or a date."""
    seconds = _seconds(value)
    if seconds is not None or not value:
        return seconds
    with contextlib.suppress(ValueError):
        date = email.utils.parsedate_to_datetime(value)
        return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds())
    return None
