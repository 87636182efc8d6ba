"""What the service answers: its envelope, and the two forms of JSON that we ask for.

Text comes from the fields of these forms only; whatever else an answer says is ignored, above all
how sure the model claims to be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pydantic
from pydantic import alias_generators

from pagewarden import errors
from pagewarden.reading import pages

if TYPE_CHECKING:
    from collections.abc import Sequence

Form = TypeVar("Form", bound=pydantic.BaseModel)

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


class Extract(pydantic.BaseModel):
    """The lines of a page in reading order."""

    lines: list[FoundLine]


class Correction(pydantic.BaseModel):
    """Another text for a line."""

    line: int = pydantic.Field(description="The number of the line.")
    text: str = pydantic.Field(description="The whole corrected text of the line.")


class Boost(pydantic.BaseModel):
    """The lines that were misread."""

    corrections: list[Correction]


class _Camel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(alias_generator=alias_generators.to_camel)


class Tokens(_Camel):
    """What the service counted; None where there was nothing to count."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None

    @property
    def input(self) -> int:
        """Count what was sent."""
        return self.prompt_token_count or 0

    @property
    def output(self) -> int:
        """Count what was answered; thoughts are paid for like text."""
        return (self.candidates_token_count or 0) + (self.thoughts_token_count or 0)


class _Part(_Camel):
    text: str = ""
    thought: bool = False


class _Content(_Camel):
    parts: list[_Part] = []


class _Candidate(_Camel):
    content: _Content = _Content()
    finish_reason: str = ""


class _Feedback(_Camel):
    block_reason: str = ""


class Envelope(_Camel):
    """The body of an answer, with the fields that matter here."""

    candidates: list[_Candidate] = []
    prompt_feedback: _Feedback = _Feedback()
    usage_metadata: Tokens = Tokens()

    def text(self) -> str:
        """Give the answer itself, or say why there is none."""
        if self.prompt_feedback.block_reason:
            raise _refused(self.prompt_feedback.block_reason)
        if not self.candidates:
            raise errors.AnswerUnusable("Gemini gave no answer; read the page again")
        candidate = self.candidates[0]
        if candidate.finish_reason in _REFUSALS:
            raise _refused(candidate.finish_reason)
        if candidate.finish_reason != _DONE:
            raise errors.AnswerUnusable(
                f"Gemini broke its answer off ({candidate.finish_reason or 'no reason given'}); "
                "read the page again, or with another engine"
            )
        return "".join(part.text for part in candidate.content.parts if not part.thought)


def parse(body: str, form: type[Form]) -> Form:
    """Take an answer apart, or raise AnswerUnusable."""
    try:
        return form.model_validate_json(body)
    except pydantic.ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]["msg"]
        raise errors.AnswerUnusable(
            f"Gemini's answer is not the JSON that was asked for ({first}); read the page again"
        ) from exc


def correct(lines: Sequence[FoundLine], boost: Boost) -> list[FoundLine]:
    """Put corrections in; there are as many lines as before, each in its place.

    A number without a line and a text without letters correct nothing. Nor does a text with fewer
    unreadable characters than before: told to correct, a model guesses what it could not read.
    """
    corrected = list(lines)
    for correction in boost.corrections:
        place = correction.line - 1
        if place not in range(len(lines)) or not correction.text.strip():
            continue
        if _unreadable(correction.text) >= _unreadable(lines[place].text):
            corrected[place] = lines[place].model_copy(update={"text": correction.text})
    return corrected


def _unreadable(text: str) -> int:
    return text.count(pages.UNREADABLE)


def _refused(reason: str) -> errors.AnswerRefused:
    return errors.AnswerRefused(
        f"Gemini refuses to read this page ({reason}); read it with another engine"
    )
