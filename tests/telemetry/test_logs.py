"""What programs write to standard error, for people and for machines."""

from __future__ import annotations

import datetime as dt
import io
import json
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from pagewarden import errors, settings
from pagewarden.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Iterator

log = structlog.get_logger("of a test")

SECRETS = {
    "PAGEWARDEN_DATABASE_URL": "postgresql://ada:s3cr3t%2Fof%2Fdb@db.example.org/x",
    "PAGEWARDEN_SMTP_URL": "smtps://ada:s3cr3t-of-mail@mail.example.org",
    "PAGEWARDEN_SLACK_WEBHOOK_URL": "https://slack.example.org/services/s3cr3t-of-slack",
    "PAGEWARDEN_ALERT_WEBHOOK_URL": "https://pager.example.org/s3cr3t-of-pager",
    "PAGEWARDEN_SUPABASE_KEY": "s3cr3t-of-services-0123456789abcdef",
    "PAGEWARDEN_METRICS_TOKEN": "s3cr3t-of-metrics-0123456789abcdef",
    "PAGEWARDEN_GEMINI_API_KEY": "s3cr3t-of-gemini",
}


class Terminal(io.StringIO):
    """A standard error that somebody looks at."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Leave logging as it was, and begin without settings."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("PAGEWARDEN_", "FORCE_COLOR", "NO_COLOR")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    logging.captureWarnings(False)
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Have what is written to a standard error that is no terminal."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure()
    return stream


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_lines_for_machines_are_json_with_the_time_in_utc(written: io.StringIO) -> None:
    """That is the default where nobody looks."""
    log.info("read", pages=3, path=Path("/x"), at=dt.date(2026, 11, 17))
    (line,) = _lines(written)
    assert dt.datetime.fromisoformat(line.pop("timestamp")).utcoffset() == dt.timedelta(0)
    assert line == {
        "event": "read", "pages": 3, "path": "/x", "at": "2026-11-17", "level": "info",
    }  # fmt: skip


def test_lines_on_a_terminal_are_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """With colours, unless they are not wanted."""
    shown = []
    for unwanted in ("", "1"):
        monkeypatch.setenv("NO_COLOR", unwanted)
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        logs.configure()
        log.info("read", pages=3)
        shown.append(stream.getvalue())
    assert "\x1b[" in shown[0]
    assert "\x1b[" not in shown[1]
    assert shown[1].endswith("pages=3\n")


@pytest.mark.parametrize("in_file", [True, False])
def test_format_and_level_are_settings(monkeypatch: pytest.MonkeyPatch, *, in_file: bool) -> None:
    """Of the environment or of .env; they go before what the terminal says."""
    chosen = {logs.FORMAT_SETTING: "json", logs.LEVEL_SETTING: "warning"}
    if in_file:
        Path(".env").write_text("".join(f"{name}={value}\n" for name, value in chosen.items()))
    else:
        for name, value in chosen.items():
            monkeypatch.setenv(name, value)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure()
    log.info("not important")
    log.warning("important")
    assert [line["event"] for line in _lines(stream)] == ["important"]
    assert settings.load().log_format == "json"


@pytest.mark.parametrize("name", [logs.FORMAT_SETTING, logs.LEVEL_SETTING])
def test_a_value_that_is_not_known_is_refused_with_those_that_are(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """By both who read it."""
    monkeypatch.setenv(name, "loud")
    with pytest.raises(errors.SettingsError, match=rf"{name} must be one of \w+, .*not 'loud'"):
        logs.configure()
    with pytest.raises(errors.SettingsError, match=name.removeprefix("PAGEWARDEN_").lower()):
        settings.load()


def test_settings_and_logs_know_the_same_values() -> None:
    """They are read apart, because most commands need only the one."""
    fields = settings.Settings.model_json_schema()["properties"]
    assert fields["log_level"]["enum"] == list(logs.LEVELS)
    assert fields["log_format"]["anyOf"][0]["enum"] == list(logs.FORMATS)


def _stumble(content: str) -> None:
    try:
        json.loads("{}")[content[:4]]
    except KeyError as exc:
        raise ValueError("it is broken") from exc


def test_an_exception_is_a_field_without_the_values_of_variables(written: io.StringIO) -> None:
    """Where it came from, its causes; what a variable held may be somebody's text."""
    content = "what a letter says"
    try:
        _stumble(content)
    except ValueError:
        log.exception("failed")
    (line,) = _lines(written)
    assert [found["exc_type"] for found in line["exception"]] == ["ValueError", "KeyError"]
    assert line["exception"][0]["exc_value"] == "it is broken"
    assert line["exception"][0]["frames"][-1]["name"] == "_stumble"
    assert content not in written.getvalue()


def test_warnings_of_others_come_in_the_same_form(written: io.StringIO) -> None:
    """With what is bound to the context; what is not so important they keep to themselves."""
    with structlog.contextvars.bound_contextvars(document="d"):
        logging.getLogger("uvicorn.error").warning("something with %s", "password=hidden")
        logging.getLogger("httpx").info("GET https://example.org")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old ways", stacklevel=1)
    first, second = _lines(written)
    assert (first["event"], first["logger"]) == ("something with password=***", "uvicorn.error")
    assert (first["document"], first["level"]) == ("d", "warning")
    assert "old ways" in second["event"]


def test_a_program_that_crashes_says_so_in_one_line(written: io.StringIO) -> None:
    """With the reason, and without a password that is in it."""
    error = OSError("postgresql://ada:hidden@db is away")
    sys.excepthook(OSError, error, None)
    (line,) = _lines(written)
    assert (line["event"], line["level"]) == ("crashed", "critical")
    assert line["exception"][0]["exc_value"] == "postgresql://ada:***@db is away"


@pytest.mark.parametrize("chosen_format", logs.FORMATS)
def test_no_secret_of_the_settings_is_ever_written(
    monkeypatch: pytest.MonkeyPatch, chosen_format: str
) -> None:
    """Neither settings nor errors with them, by whatever way."""
    monkeypatch.setenv(logs.FORMAT_SETTING, chosen_format)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure()
    loaded = settings.load()
    log.info("settings", settings=loaded, same=loaded.model_dump(), unveiled=loaded.secrets())
    for secret in SECRETS.values():
        log.warning("failed", error=f"ConnectError: {secret} does not answer")
        logging.getLogger("smtplib").error("cannot reach %s", secret)
        error = OSError(f"cannot reach {secret}")
        log.error("failed", error=error, exc_info=error)
    log.warning("failed", error="password authentication failed with s3cr3t/of/db")
    assert len(stream.getvalue().splitlines()) > 20
    assert "s3cr3t" not in stream.getvalue()


def test_a_setting_that_is_wrong_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the error, nor by the one behind it."""
    monkeypatch.setenv("PAGEWARDEN_OTLP_ENDPOINT", "grpc://ada:s3cr3t@collector.example.org")
    with pytest.raises(errors.SettingsError) as caught:
        settings.load()
    assert "PAGEWARDEN_OTLP_ENDPOINT" in str(caught.value)
    assert "s3cr3t" not in f"{caught.value} {caught.value.__cause__}"
