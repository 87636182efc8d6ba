"""Texts that differ only in how they are written down are made equal."""

from __future__ import annotations

import json
import unicodedata
from importlib import resources
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pagewarden.checks.rules.normalization import normalize_soft, normalize_strict

VECTORS = json.loads(
    resources.files("pagewarden.checks").joinpath("vectors.json").read_text(encoding="utf-8")
)["vectors"]
NORMALIZERS = {"strict": normalize_strict, "soft": normalize_soft}
TEXT = st.text(max_size=30)
FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_published_vectors(vector: dict[str, str]) -> None:
    """Each pair is equal strictly, softly only, or not at all, as published."""
    equal = [name for name, made in NORMALIZERS.items() if made(vector["a"]) == made(vector["b"])]
    assert equal == {"strict": ["strict", "soft"], "soft": ["soft"], "none": []}[vector["equal"]]


@given(TEXT)
@example("a \u200b b")
@example("\u0345")
@example("ǰ\u0345İ")
@example("\u1fb3 \u00ad\u0301")
@example("\u0149 \ufb2c \ufdfa")
def test_twice_is_as_good_as_once(text: str) -> None:
    """What is normalised stays as it is."""
    for made in NORMALIZERS.values():
        assert made(made(text)) == made(text)


@given(TEXT)
@example("a\u200b\u0301")
def test_soft_is_coarser_than_strict(text: str) -> None:
    """Whatever strict makes equal, soft does: it sees no more than strict leaves."""
    assert normalize_soft(normalize_strict(text)) == normalize_soft(text)


@given(TEXT, st.sampled_from(FORMS))
def test_how_letters_are_composed_makes_no_difference(
    text: str, form: Literal["NFC", "NFD"]
) -> None:
    """Canonically equal texts are equal strictly."""
    assert normalize_strict(unicodedata.normalize(form, text)) == normalize_strict(text)


@given(TEXT)
@example("a \u200b b")
def test_nothing_unseen_is_left(text: str) -> None:
    """There are no control characters, and single spaces within the text only."""
    made = normalize_strict(text)
    assert made == " ".join(made.split())
    assert not any(unicodedata.category(character) == "Cc" for character in made)


@given(st.text(st.characters(max_codepoint=0x7E, min_codepoint=0x21, exclude_characters="`")))
def test_plain_text_stays_as_it_is(text: str) -> None:
    """ASCII has nothing to normalise strictly but its backtick."""
    assert normalize_strict(text) == text
