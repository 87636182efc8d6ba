"""Parse responses, apply corrections, place lines on the page.

The docstrings and descriptions of `Extract`, `Boost` and their fields are part of the JSON schema
that the model receives. Only these fields are used; a confidence that the model claims is ignored.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, TypeVar

import pydantic
from pydantic import alias_generators

from pagewarden import errors
from pagewarden.ocr import bidi, pages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Schema = TypeVar("Schema", bound=pydantic.BaseModel)

_DONE = "STOP"
_REFUSALS = frozenset(
    {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"}
)


class FoundLine(pydantic.BaseModel):
    """A line as the service found it."""

    text: str = pydantic.Field(description="The text of the line, exactly as printed.")
    box_2d: list[float] | None = pydantic.Field(
        default=None, description="[ymin, xmin, ymax, xmax], each 0 to 1000."
    )


class ExtractedLines(pydantic.BaseModel):
    """The lines of a page in reading order."""

    lines: list[FoundLine]


class Correction(pydantic.BaseModel):
    """Another text for a line."""

    line: int = pydantic.Field(description="The number of the line.")
    text: str = pydantic.Field(description="The whole corrected text of the line.")


class LineCorrections(pydantic.BaseModel):
    """The lines that were misread."""

    corrections: list[Correction]


class _CamelModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(alias_generator=alias_generators.to_camel)


class TokenUsage(_CamelModel):
    """The token counts of the service; None if there is nothing to count."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None

    @property
    def input(self) -> int:
        """The tokens of the request."""
        return self.prompt_token_count or 0

    @property
    def output(self) -> int:
        """The tokens of the answer; thoughts cost as much as text."""
        return (self.candidates_token_count or 0) + (self.thoughts_token_count or 0)


class _Part(_CamelModel):
    text: str = ""
    thought: bool = False


class _Content(_CamelModel):
    parts: list[_Part] = []


class _Candidate(_CamelModel):
    content: _Content = _Content()
    finish_reason: str = ""


class _Feedback(_CamelModel):
    block_reason: str = ""


class ResponseBody(_CamelModel):
    """The body of a response, with the fields that are used here."""

    candidates: list[_Candidate] = []
    prompt_feedback: _Feedback = _Feedback()
    usage_metadata: TokenUsage = TokenUsage()

    def get_text(self) -> str:
        """Return the text of the answer; raises the reason if there is none."""
        if self.prompt_feedback.block_reason:
            raise _refusal_error(self.prompt_feedback.block_reason)
        if not self.candidates:
            raise errors.InvalidEngineResponse("Gemini returned no text; read the page again")
        candidate = self.candidates[0]
        if candidate.finish_reason in _REFUSALS:
            raise _refusal_error(candidate.finish_reason)
        if candidate.finish_reason != _DONE:
            reason = candidate.finish_reason or "no reason given"
            raise errors.InvalidEngineResponse(
                f"the response from Gemini is incomplete ({reason}); read the page again, or with "
                "another engine"
            )
        return "".join(part.text for part in candidate.content.parts if not part.thought)


def parse(body: str, schema: type[Schema]) -> Schema:
    """Parse JSON; raises InvalidEngineResponse if it does not have this schema."""
    try:
        return schema.model_validate_json(body)
    except pydantic.ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]["msg"]
        raise errors.InvalidEngineResponse(
            f"the response from Gemini does not match the JSON schema ({first}); read the page "
            "again"
        ) from exc


def apply_corrections(lines: Sequence[FoundLine], corrections: LineCorrections) -> list[FoundLine]:
    """Replace the text of corrected lines; the number and order of lines do not change.

    A correction is ignored if there is no such line or its text is blank; also if the text has
    fewer unreadable characters than before, because the model then guessed them.
    """
    corrected = list(lines)
    for correction in corrections.corrections:
        index = correction.line - 1
        if index not in range(len(lines)) or not correction.text.strip():
            continue
        if _count_unreadable(correction.text) >= _count_unreadable(lines[index].text):
            corrected[index] = lines[index].model_copy(update={"text": correction.text})
    return corrected


def _count_unreadable(text: str) -> int:
    return text.count(pages.UNREADABLE)


def _refusal_error(reason: str) -> errors.PageRejected:
    return errors.PageRejected(
        f"Gemini refused to read this page ({reason}); read it with another engine"
    )


SCALE = 1000  # the service returns thousandths of each side

# The model has no useful confidence, so all lines get the same: above the review threshold (0.8),
# and below what the dashboard shows as high confidence (0.85).
CONFIDENCE = 0.82

# The confidence of a line whose position is a guess.
UNPLACED_CONFIDENCE = 0.5


def place_on_page(found: Sequence[FoundLine], width: int, height: int) -> tuple[pages.Line, ...]:
    """Place each line; a line without a valid box gets a strip of the page by its index."""
    lines = []
    for index, line in enumerate(found):
        text = _clean(line.text)
        if not text:
            continue
        box = _parse_box(line.box_2d)
        confidence = pages.UNREADABLE_CONFIDENCE if pages.UNREADABLE in text else CONFIDENCE
        if box is None:
            box = pages.Box(0, SCALE * index / len(found), SCALE, SCALE * (index + 1) / len(found))
            confidence = min(confidence, UNPLACED_CONFIDENCE)
        lines.append(_make_line(text, _scale(box, width / SCALE, height / SCALE), confidence))
    return tuple(lines)


def _clean(text: str) -> str:
    """Join the text to one line, and remove control characters, which cannot be stored."""
    one_line = " ".join(text.split())
    return "".join(char for char in one_line if unicodedata.category(char) != "Cc")


def _parse_box(box_2d: Sequence[float] | None) -> pages.Box | None:
    if box_2d is None or len(box_2d) != 4 or not all(0 <= side <= SCALE for side in box_2d):
        return None
    top, left, bottom, right = box_2d
    return pages.Box(left, top, right, bottom) if left < right and top < bottom else None


def _scale(box: pages.Box, x_factor: float, y_factor: float) -> pages.Box:
    return pages.Box(
        box.left * x_factor, box.top * y_factor, box.right * x_factor, box.bottom * y_factor
    )


def _make_line(text: str, box: pages.Box, confidence: float) -> pages.Line:
    words = tuple(
        pages.Word(word, word_box.quad(), confidence) for word, word_box in _place_words(text, box)
    )
    return pages.Line(text, box.quad(), confidence, words)


def _place_words(text: str, box: pages.Box) -> Iterator[tuple[str, pages.Box]]:
    """Divide the box of a line by characters, from the side where its script begins."""
    step = (box.right - box.left) / len(text)
    for match in re.finditer(r"\S+", text):
        begin, end = match.start() * step, match.end() * step
        if bidi.is_right_to_left(text):
            yield match[0], box._replace(left=box.right - end, right=box.right - begin)
        else:
            yield match[0], box._replace(left=box.left + begin, right=box.left + end)
