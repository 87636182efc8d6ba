"""The engine: extract the lines of a page, then boost their text."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING

import structlog
from google.genai import types

from pagewarden import errors, settings
from pagewarden.reading import engine, ink
from pagewarden.reading.gemini import answers, lines, pace, picture, prompts, service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.reading import engines

log = structlog.get_logger(__name__)


class Gemini:
    """An engine at a service; one of them serves all threads of a process.

    A page is sent twice: once to extract its lines, once to boost them, that is to have what was
    read compared with the page again.
    """

    name = "gemini"

    def __init__(
        self, options: service.Options | None = None, *, clock: pace.Clock | None = None
    ) -> None:
        self._options = options or _options(settings.load())
        if not self._options.key.strip() or not self._options.key.isascii():
            raise errors.KeyRefused(
                "Gemini wants a key; set PAGEWARDEN_GEMINI_API_KEY, or choose another engine"
            )
        self._service = service.Service(self._options, clock or pace.Clock())

    @classmethod
    def from_settings(cls, given: settings.Settings, *, clock: pace.Clock | None = None) -> Gemini:
        """Make it as these settings say; without options it is made as the process's own say."""
        return cls(_options(given), clock=clock)

    @property
    def version(self) -> str:
        """Name the model, and what it is told: other prompts read other pages."""
        told = (prompts.INSTRUCTION, self._options.extract_prompt, self._options.boost_prompt)
        digest = hashlib.sha256("\0".join(told).encode()).hexdigest()
        return f"{self._options.model}+{digest[:8]}"

    def recognise(self, image: engine.PageImage, hints: engine.Hints) -> engine.Recognised:
        """Read a page, within the patience of the settings and a few seconds.

        A page without ink has no text; the service is not asked, as a model may invent some.
        """
        if not ink.is_inked(image.pixels):
            return engine.Recognised(())
        visit = self._service.visit()
        page = types.Part.from_bytes(data=picture.encode(image), mime_type=picture.MIME_TYPE)
        found = self._extract(visit, page, hints)
        if found:
            found = self._boost(visit, page, found)
        return engine.Recognised(lines.on_page(found, image.width, image.height), visit.usage)

    def ask_first(self, permit: engines.Permit) -> None:
        """Ask this before each request, besides keeping to the limit of our own process."""
        self._service.permit = functools.partial(permit, self.name)

    def close(self) -> None:
        """End waits and connections; pages under way end in EngineAway."""
        self._service.close()

    def _extract(
        self, visit: service.Visit, page: types.Part, hints: engine.Hints
    ) -> Sequence[answers.FoundLine]:
        told = [self._options.extract_prompt, prompts.of_languages(hints)]
        parts = [page, *(types.Part.from_text(text=text) for text in told if text)]
        return self._service.ask(visit, parts, answers.Extract).lines

    def _boost(
        self, visit: service.Visit, page: types.Part, found: Sequence[answers.FoundLine]
    ) -> Sequence[answers.FoundLine]:
        """Keep what was extracted where the page itself cannot be boosted.

        Where the service is away or wants a rest the page is not done: it would be saved at
        another quality than its neighbours, and nobody would ever boost it.
        """
        told = [self._options.boost_prompt, prompts.of_lines(found)]
        parts = [page, *(types.Part.from_text(text=text) for text in told)]
        try:
            return answers.correct(found, self._service.ask(visit, parts, answers.Boost))
        except (errors.AnswerRefused, errors.AnswerUnusable) as exc:
            log.warning("page_not_boosted", engine=self.name, reason=str(exc))
            return found


def _options(given: settings.Settings) -> service.Options:
    key = given.gemini_api_key
    return service.Options(
        key=key.get_secret_value() if key else "",
        model=given.gemini_model,
        base_url=str(given.gemini_base_url),
        extract_prompt=given.gemini_extract_prompt or prompts.EXTRACT,
        boost_prompt=given.gemini_boost_prompt or prompts.BOOST,
        requests_per_minute=given.gemini_requests_per_minute,
        timeout=given.gemini_timeout_seconds,
        patience=given.gemini_patience_seconds,
        max_retries=given.gemini_max_retries,
        input_price=given.gemini_input_price,
        output_price=given.gemini_output_price,
    )
