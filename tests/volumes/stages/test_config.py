"""What a job may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from pagewarden import errors
from pagewarden.volumes import config


def test_defaults_are_those_agreed_on() -> None:
    """A job without a word of its own is processed as everybody expects."""
    defaults = config.VolumeConfig()
    assert (defaults.k_factor, defaults.bbox_tolerance) == (2.5, 4.0)
    assert (defaults.merge_lines, defaults.use_tps) == (False, False)
    assert (defaults.encoding, defaults.line_mode) == ("unicode", "line")
    assert defaults.failed_pages_allowed == 0.1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"k_faktor": 2.5}, "unknown key 'k_faktor'"),
        ({"k_factor": "2.5"}, "k_factor: Input should be a valid number"),
        ({"k_factor": 0.5}, "k_factor: Input should be greater than or equal to 1"),
        ({"k_factor": float("nan")}, "k_factor: Input should be a finite number"),
        ({"merge_lines": 1}, "merge_lines: Input should be a valid boolean"),
        ({"encoding": "ewts"}, "encoding: Input should be 'unicode' or 'wylie'"),
        ({"line_mode": "word"}, "line_mode: Input should be 'line' or 'masked'"),
        ({"engine": "abby"}, "unknown engine 'abby'; choose one of rapid"),
        ({"exports": ["pdf"]}, "exports.0: Input should be 'txt', 'alto' or 'page'"),
        ({"failed_pages_allowed": 1.5}, "failed_pages_allowed"),
        ({"reducer": "combine"}, "reducer 'combine' requires sources"),
        ({"reducer": "combine", "sources": ["jobs"]}, "'jobs' is not a Parquet file"),
        ({"reducer": "combine", "sources": ["../a.parquet"]}, "'../a.parquet' cannot be used"),
    ],
)
def test_a_wrong_config_is_refused_by_name(given: dict[str, Any], said: str) -> None:
    """Whoever creates a job learns which key is wrong, and how."""
    with pytest.raises(errors.SettingsError) as caught:
        config.VolumeConfig.parse(given)
    assert said in str(caught.value)
    assert caught.value.category is errors.Category.CONFIGURATION


def test_every_wrong_key_is_named() -> None:
    """Nobody has to try one after the other."""
    with pytest.raises(errors.SettingsError, match=r"use_tps: .*; encoding: "):
        config.VolumeConfig.parse({"use_tps": "yes", "encoding": 7})


def test_a_config_survives_json() -> None:
    """What is kept in the database is what comes out of it."""
    given = {"exports": ["txt", "alto"], "language": "bod", "tps_ratio": 1}
    chosen = config.VolumeConfig.parse(given)
    assert config.VolumeConfig.model_validate(chosen.model_dump(mode="json")) == chosen
    assert chosen.exports == ("txt", "alto")


def test_a_stage_is_named_by_its_own_keys_only() -> None:
    """Another engine makes no other lines, and nothing makes a difference to how much may fail."""
    plain = config.VolumeConfig()
    other = config.VolumeConfig.parse({"engine": "tesseract", "failed_pages_allowed": 0.5})
    assert other.digest("line_detection") == plain.digest("line_detection")
    assert other.digest("line_extraction") == plain.digest("line_extraction")
    assert other.digest("ocr") != plain.digest("ocr")


def test_every_key_belongs_to_a_stage_or_is_known_to_change_nothing() -> None:
    """A key that is forgotten here would let outdated artifacts pass for new ones."""
    of_stages = {key for keys in config.STAGE_KEYS.values() for key in keys}
    change_nothing = {"failed_pages_allowed", "processes"}
    assert of_stages | change_nothing == set(config.VolumeConfig.model_fields)
    assert not of_stages & change_nothing


@pytest.mark.parametrize(
    ("language", "codes"),
    [("", ()), ("bod", ("bod",)), ("deu+lat", ("deu", "lat")), ("deu, lat", ("deu", "lat"))],
)
def test_languages_are_told_apart(language: str, codes: tuple[str, ...]) -> None:
    """Engines want them one by one."""
    assert config.VolumeConfig(language=language).languages == codes
