"""GeminiEngine: send a page as JPEG, extract its lines, then boost their text."""

from __future__ import annotations

import functools
import hashlib
import io
from typing import TYPE_CHECKING

import structlog
from google.genai import types
from PIL import Image

from pagewarden import errors
from pagewarden.ocr.engines import base
from pagewarden.ocr.engines.gemini import GeminiSettings, client, responses
from pagewarden.ocr.images import skew

if TYPE_CHECKING:
    from collections.abc import Sequence


log = structlog.get_logger(__name__)

MIME_TYPE = "image/jpeg"
LONG_SIDE = 3072  # pixels; the service scales larger images down
QUALITY = 92


def encode_page(image: base.PageImage) -> bytes:
    """Encode a page as JPEG, scaled down if it is larger than the service can use."""
    picture = Image.fromarray(image.pixels)
    picture.thumbnail((LONG_SIDE, LONG_SIDE), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()


class GeminiEngine:
    """Reads pages with Gemini; all threads of a process share one engine.

    A page is sent twice: first to extract its lines, then to boost them, that is to correct them by
    comparison with the page.
    """

    name = "gemini"

    def __init__(
        self, options: client.ClientOptions | None = None, *, clock: client.Clock | None = None
    ) -> None:
        self._options = options or _make_options(GeminiSettings.load())
        if not self._options.key.strip() or not self._options.key.isascii():
            raise errors.ApiKeyRejected(
                "Gemini requires a key; set PAGEWARDEN_GEMINI_API_KEY, or choose another engine"
            )
        self._client = client.GeminiClient(self._options, clock or client.Clock())

    @classmethod
    def from_settings(
        cls, settings: GeminiSettings, *, clock: client.Clock | None = None
    ) -> GeminiEngine:
        """Make the engine from settings; `GeminiEngine()` loads them itself."""
        return cls(_make_options(settings), clock=clock)

    @property
    def version(self) -> str:
        """Return the model and a digest of the prompts, which determine the results."""
        prompts = (client.INSTRUCTION, self._options.extract_prompt, self._options.boost_prompt)
        digest = hashlib.sha256("\0".join(prompts).encode()).hexdigest()
        return f"{self._options.model}+{digest[:8]}"

    def recognise(self, image: base.PageImage, hints: base.PageHints) -> base.RecognitionResult:
        """Read a page within the page timeout of the settings and a few seconds.

        A page without ink has no text. It is not sent, because a model may invent text.
        """
        if not skew.has_ink(image.pixels):
            return base.RecognitionResult(())
        session = self._client.start_page()
        page = types.Part.from_bytes(data=encode_page(image), mime_type=MIME_TYPE)
        found = self._extract(session, page, hints)
        if found:
            found = self._boost(session, page, found)
        return base.RecognitionResult(
            responses.place_on_page(found, image.width, image.height), session.usage
        )

    def set_permit(self, permit: base.Permit) -> None:
        """Call `permit` before each request, in addition to the rate limit of this process."""
        self._client.permit = functools.partial(permit, self.name)

    def close(self) -> None:
        """End waits and connections; pages in progress fail with EngineUnavailable."""
        self._client.close()

    def _extract(
        self, session: client.PageSession, page: types.Part, hints: base.PageHints
    ) -> Sequence[responses.FoundLine]:
        prompts = [self._options.extract_prompt, client.describe_languages(hints)]
        parts = [page, *(types.Part.from_text(text=text) for text in prompts if text)]
        return self._client.request(session, parts, responses.ExtractedLines).lines

    def _boost(
        self, session: client.PageSession, page: types.Part, found: Sequence[responses.FoundLine]
    ) -> Sequence[responses.FoundLine]:
        """Correct the extracted lines; keep them if the service cannot boost this page.

        During an outage, or if the rate limit is exceeded, the page fails: otherwise it would be
        saved with a lower quality, and never boosted later.
        """
        prompts = [self._options.boost_prompt, client.describe_lines(found)]
        parts = [page, *(types.Part.from_text(text=text) for text in prompts)]
        try:
            return responses.apply_corrections(
                found, self._client.request(session, parts, responses.LineCorrections)
            )
        except (errors.PageRejected, errors.InvalidEngineResponse) as exc:
            log.warning("page_boost_failed", engine=self.name, reason=str(exc))
            return found


def _make_options(settings: GeminiSettings) -> client.ClientOptions:
    key = settings.gemini_api_key
    return client.ClientOptions(
        key=key.get_secret_value() if key else "",
        model=settings.gemini_model,
        base_url=str(settings.gemini_base_url),
        extract_prompt=settings.gemini_extract_prompt or client.EXTRACT,
        boost_prompt=settings.gemini_boost_prompt or client.BOOST,
        requests_per_minute=settings.gemini_requests_per_minute,
        request_timeout=settings.gemini_timeout_seconds,
        page_timeout=settings.gemini_patience_seconds,
        max_retries=settings.gemini_max_retries,
        input_price=settings.gemini_input_price,
        output_price=settings.gemini_output_price,
    )
