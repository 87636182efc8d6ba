"""Ask the service, as often as it takes and may take; Google's own retries are switched off."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google import genai
from google.genai import types

from pagewarden import errors
from pagewarden.reading import pages
from pagewarden.reading.gemini import answers, faults, pace, prompts, transport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

API_VERSION = "v1beta"

# Only these models let thinking be switched off, which reads no better and costs time and money;
# the others refuse a request that tries.
UNTHINKING_MODELS = "gemini-2.5-flash"

BACKOFF_SECONDS = 1.0  # doubles with each try
MAX_BACKOFF_SECONDS = 30.0

# An answer that cannot be used was paid for, and the next one is often no better.
TRIES_AT_AN_ANSWER = 2

_PASSING = (
    errors.AnswerUnusable,
    errors.EngineAway,
    errors.RateLimited,
    errors.ReadingTimedOut,
)


@dataclass(frozen=True, slots=True)
class Options:
    """Where and how to ask.

    timeout bounds one answer and patience all of a page, waits included, in seconds; prices are
    in US dollars per million tokens.
    """

    key: str = field(repr=False)
    model: str
    base_url: str
    extract_prompt: str
    boost_prompt: str
    requests_per_minute: int
    timeout: float
    patience: float
    max_retries: int
    input_price: float
    output_price: float


@dataclass(slots=True)
class Visit:
    """One page at the service: until when it may take, and what it cost so far.

    Answers that could not be used are paid for like the others.
    """

    ends: float
    usage: pages.Usage = field(default_factory=pages.Usage)


class Service:
    """The service, for any number of threads; permit says how long each request has to wait."""

    def __init__(self, options: Options, clock: pace.Clock) -> None:
        self.permit: Callable[[], float] | None = None
        self._options = options
        self._clock = clock
        self._limiter = pace.Limiter(options.requests_per_minute, clock)
        self._http = transport.client()
        self._client = genai.Client(
            vertexai=False,
            api_key=options.key,
            http_options=types.HttpOptions(
                base_url=options.base_url,
                api_version=API_VERSION,
                httpx_client=self._http,
                retry_options=types.HttpRetryOptions(attempts=1),
            ),
        )

    def visit(self) -> Visit:
        """Begin a page."""
        return Visit(self._clock.now() + self._options.patience)

    def ask(
        self, visit: Visit, parts: Sequence[types.Part], form: type[answers.Form]
    ) -> answers.Form:
        """Ask until there is an answer of the wanted form, or no sense in asking again."""
        tries = 0
        while True:
            self._limiter.take(visit.ends)
            self._wait_for_permit(visit)
            tries += 1
            try:
                return answers.parse(self._answer(visit, parts, form), form)
            except _PASSING as exc:
                pause = self._pause(exc, tries)
                if self._gives_up(exc, tries) or self._clock.now() + pause >= visit.ends:
                    raise
            self._clock.wait(pause)

    def _wait_for_permit(self, visit: Visit) -> None:
        """Wait for our turn among all processes that ask this service."""
        seconds = self.permit() if self.permit else 0.0
        if self._clock.now() + seconds >= visit.ends:
            raise errors.RateLimited(
                f"all workers together may ask Gemini again in {seconds:.0f} s; try then, or raise "
                "PAGEWARDEN_ENGINE_CALLS_PER_SECOND if the key's quota allows more",
                retry_after=seconds,
            )
        if seconds:
            self._clock.wait(seconds)

    def close(self) -> None:
        """End the waits and idle connections; an answer under way is awaited by its time-out."""
        self._clock.stop()
        self._http.close()

    def _answer(self, visit: Visit, parts: Sequence[types.Part], form: type[answers.Form]) -> str:
        seconds = min(self._options.timeout, visit.ends - self._clock.now())
        body = self._send(parts, self._config(form, seconds))
        envelope = answers.parse(body, answers.Envelope)
        visit.usage = self._with(visit.usage, envelope.usage_metadata)
        return envelope.text()

    def _send(self, parts: Sequence[types.Part], config: types.GenerateContentConfig) -> str:
        try:
            with faults.translated(self._clock, self._options.model):
                response = self._client.models.generate_content(
                    model=self._options.model,
                    contents=types.Content(role="user", parts=list(parts)),
                    config=config,
                ).sdk_http_response
        except RuntimeError as exc:  # httpx has no class for a client that somebody closed
            if not self._http.is_closed:
                raise
            raise errors.EngineAway(pace.CLOSED) from exc
        return (response and response.body) or ""

    def _config(self, form: type[answers.Form], seconds: float) -> types.GenerateContentConfig:
        thinking = None
        if self._options.model.removeprefix("models/").startswith(UNTHINKING_MODELS):
            thinking = types.ThinkingConfig(thinking_budget=0)
        return types.GenerateContentConfig(
            system_instruction=prompts.INSTRUCTION,
            temperature=0,
            response_mime_type="application/json",
            response_schema=form,
            thinking_config=thinking,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            automatic_continuation=False,
            # Taken apart by ourselves: the library meets an unforeseen body with a TypeError.
            should_return_http_response=True,
            http_options=types.HttpOptions(timeout=max(1, round(seconds * 1000))),
        )

    def _with(self, usage: pages.Usage, tokens: answers.Tokens) -> pages.Usage:
        cost = (
            tokens.input * self._options.input_price + tokens.output * self._options.output_price
        ) / 1_000_000
        return pages.Usage(
            usage.input_tokens + tokens.input,
            usage.output_tokens + tokens.output,
            usage.cost_usd + cost,
        )

    def _gives_up(self, exc: errors.PagewardenError, tries: int) -> bool:
        if isinstance(exc, errors.AnswerUnusable) and tries >= TRIES_AT_AN_ANSWER:
            return True
        return tries > self._options.max_retries

    def _pause(self, exc: errors.PagewardenError, tries: int) -> float:
        backoff = min(BACKOFF_SECONDS * 2.0 ** (tries - 1), MAX_BACKOFF_SECONDS)
        pause = backoff * random.uniform(0.75, 1.25)  # noqa: S311  # no secret
        if isinstance(exc, errors.RateLimited):
            pause = max(pause, exc.retry_after or 0.0)
            self._limiter.hold(pause)  # the other threads' requests would fare no better
        return pause
