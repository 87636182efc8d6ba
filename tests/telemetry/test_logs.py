"""Structured logs on standard error, for people and as JSON."""

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
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Restore logging, and start without settings."""
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
    """Capture standard error, which is not a terminal."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure()
    return stream


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_lines_have_utc_timestamps(written: io.StringIO) -> None:
    """JSON is the default without a terminal."""
    log.info("read", pages=3, path=Path("/x"), at=dt.date(2026, 11, 17))
    (line,) = _lines(written)
    assert dt.datetime.fromisoformat(line.pop("timestamp")).utcoffset() == dt.timedelta(0)
    assert line == {
        "event": "read", "pages": 3, "path": "/x", "at": "2026-11-17", "level": "info",
    }  # fmt: skip


def test_console_format_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """With colours, unless NO_COLOR is set."""
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
    """They come from the environment or .env, and override the default of a terminal."""
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
def test_invalid_value_error_lists_the_valid_ones(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """In the settings and in the logs."""
    monkeypatch.setenv(name, "loud")
    with pytest.raises(errors.SettingsError, match=rf"{name} must be one of \w+, .*not 'loud'"):
        logs.configure()
    with pytest.raises(errors.SettingsError, match=name.removeprefix("PAGEWARDEN_").lower()):
        settings.load()


def test_settings_and_logs_know_the_same_values() -> None:
    """Logs read them separately, because most commands do not load the settings."""
    fields = settings.Settings.model_json_schema()["properties"]
    assert fields["log_level"]["enum"] == list(logs.LEVELS)
    assert fields["log_format"]["anyOf"][0]["enum"] == list(logs.FORMATS)


def _stumble(content: str) -> None:
    try:
        json.loads("{}")[content[:4]]
    except KeyError as exc:
        raise ValueError("it is broken") from exc


def test_exception_is_a_field_without_local_variables(written: io.StringIO) -> None:
    """It has frames and causes; variables may contain the text of documents."""
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


def test_library_warnings_have_the_same_form(written: io.StringIO) -> None:
    """They have the bound context; their info lines are not logged."""
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


def test_crash_is_one_line(written: io.StringIO) -> None:
    """It has the error, with passwords redacted."""
    error = OSError("postgresql://ada:hidden@db is away")
    sys.excepthook(OSError, error, None)
    (line,) = _lines(written)
    assert (line["event"], line["level"]) == ("crashed", "critical")
    assert line["exception"][0]["exc_value"] == "postgresql://ada:***@db is away"


@pytest.mark.parametrize("chosen_format", logs.FORMATS)
def test_secrets_of_the_settings_are_not_logged(
    monkeypatch: pytest.MonkeyPatch, chosen_format: str
) -> None:
    """Neither in settings nor in errors, in any form."""
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


def test_invalid_setting_error_has_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the error nor its cause has it."""
    monkeypatch.setenv("PAGEWARDEN_OTLP_ENDPOINT", "grpc://ada:s3cr3t@collector.example.org")
    with pytest.raises(errors.SettingsError) as caught:
        settings.load()
    assert "PAGEWARDEN_OTLP_ENDPOINT" in str(caught.value)
    assert "s3cr3t" not in f"{caught.value} {caught.value.__cause__}"
