"""One document through two real programs: one trace, JSON logs, metrics of both."""

from __future__ import annotations

import collections
import contextlib
import datetime as dt
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client import parser

from benchmarks import system
from tests.database import factories
from tests.functions import house
from tests.support import databases, otlp, polling
from tests.telemetry import programs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pagewarden.local import server

REQUEST = "asked-by-a-test"
KEY = "sb_secret_that_is_long_enough_for_a_test"
PAGES = 2


@dataclass(frozen=True, slots=True)
class Seen:
    """Results of a run: a document, its spans, logs and metrics of both programs."""

    document: str
    traces: otlp.Receiver
    functions: list[dict[str, Any]]
    worker: list[dict[str, Any]]
    metrics: dict[str, dict[tuple[str, ...], float]]


@pytest.fixture(scope="module")
async def seen(
    local_server: server.LocalServer,
    migrated_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Seen]:
    """Serve functions, run a worker, upload a PDF of two pages, and wait for its text."""
    home = tmp_path_factory.mktemp("home")
    async with databases.open_clone(local_server, migrated_template) as database:
        with otlp.run_receiver() as traces:
            yield await _run(database, home, traces)


async def _run(database: databases.Database, home: Path, traces: otlp.Receiver) -> Seen:
    (port,) = system.free_ports(1)
    shared = {
        "PAGEWARDEN_DATABASE_URL": database.url(),
        "PAGEWARDEN_HOME": str(home),
        "PAGEWARDEN_SUPABASE_KEY": KEY,
        "PAGEWARDEN_JWT_SECRET": house.SECRET,
        "PAGEWARDEN_LISTEN_PORT": str(port),
        "PAGEWARDEN_OTLP_ENDPOINT": traces.url,
        "PAGEWARDEN_METRICS_PORT": "0",
        "PAGEWARDEN_ENGINE": "null",
        "PAGEWARDEN_LOG_LEVEL": "debug",
    }
    await (await factories.Factory.of(database)).user(admin=True)
    async with (
        programs.running("functions", **shared) as functions,
        programs.running("pagewarden", "work", "--processes", "1", **shared) as worker,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        document = await _upload(client)
        await worker.line("document_completed")
        served = (await worker.line("metrics_server_started"))["url"]
        texts = [(await client.get(url)).text for url in (served, "/metrics")]
    return Seen(document, traces, functions.lines, worker.lines, _metrics(texts))


async def _upload(client: httpx.AsyncClient) -> str:
    async def is_ready() -> bool:
        with contextlib.suppress(httpx.TransportError):
            return (await client.get("/readyz")).is_success
        return False

    await polling.wait_until(is_ready, seconds=programs.TIMEOUT_SECONDS)
    answer = await client.post(
        "/functions/v1/upload-to-dropbox",
        files={"file": ("letter.pdf", house.READABLE_PDF)},
        headers={"apikey": KEY, "X-Request-Id": REQUEST},
    )
    return str(answer.raise_for_status().json()["document_id"])


def _metrics(texts: list[str]) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for text in texts:
        for family in parser.text_string_to_metric_families(text):
            for sample in family.samples:
                key = tuple(sample.labels[name] for name in sorted(sample.labels))
                values = found.setdefault(sample.name, {})
                values[key] = values.get(key, 0) + sample.value
    return found


def test_upload_to_text_is_one_trace_of_two_programs(seen: Seen) -> None:
    """Its id is the document id; nothing else was passed along."""
    spans = seen.traces.spans_of(seen.document)
    assert seen.traces.paths == {"/v1/traces"}
    assert {span.trace for span in seen.traces.spans} == {uuid.UUID(seen.document).hex}
    names = collections.Counter(span.name for span in spans)
    assert names.pop("save") <= PAGES  # those that came together are saved together
    assert names == {
        "upload": 1, "claim": 1, "attempt": 1, "fetch": 1, "page": PAGES, "complete": 1,
    }  # fmt: skip
    assert [span.attributes["page"] for span in spans if span.name == "page"] == [1, 2]
    assert {span.name: span.service for span in spans} == {
        **dict.fromkeys([*names, "save"], "pagewarden-worker"),
        "upload": "pagewarden-functions",
    }


def test_upload_is_the_root_span(seen: Seen) -> None:
    """Children start and end within their parents."""
    spans = {span.name: span for span in seen.traces.spans_of(seen.document)}
    upload, attempt = spans["upload"], spans["attempt"]
    assert upload.parent == ""
    assert {spans["claim"].parent, attempt.parent} == {upload.id}
    for name in ("fetch", "page", "save", "complete"):
        assert spans[name].parent == attempt.id
        assert attempt.start <= spans[name].start <= spans[name].end <= attempt.end
    assert spans["claim"].end <= attempt.start


def test_spans_have_attributes(seen: Seen) -> None:
    """Document, lane, worker, attempt, engine and pages."""
    spans = {span.name: span for span in seen.traces.spans_of(seen.document)}
    attempt = spans["attempt"].attributes
    assert attempt.pop("worker").endswith(("-1", "-2"))
    assert attempt == {
        "document": seen.document, "lane": "pdf", "attempt": 1, "engine": "null", "pages": PAGES,
        "outcome": "completed",
    }  # fmt: skip
    assert spans["upload"].attributes["bytes"] == len(house.READABLE_PDF)
    assert spans["upload"].attributes["request"] == REQUEST
    assert not any(span.is_error for span in spans.values())


def test_worker_lines_have_document_worker_and_attempt(seen: Seen) -> None:
    """Also the lines of the modules it calls."""
    about = [line for line in seen.worker if "document" in line]
    assert {line["event"] for line in about} == {"document_claimed", "document_completed"}
    for line in about:
        assert (line["document"], line["lane"], line["attempt"]) == (seen.document, "pdf", 1)
        assert line["worker"]
    (done,) = [line for line in about if line["event"] == "document_completed"]
    assert (done["pages"], done["engine"], done["level"]) == (PAGES, "null", "info")


def test_request_lines_have_route_user_and_status(seen: Seen) -> None:
    """One line for each request; none of uvicorn's, and no key."""
    (line,) = [line for line in seen.functions if line.get("request") == REQUEST]
    assert dt.datetime.fromisoformat(line.pop("timestamp")).tzinfo is dt.UTC
    assert line.pop("seconds") > 0
    assert line == {
        "event": "request", "level": "info", "request": REQUEST, "user": "service_role",
        "method": "POST", "route": "/functions/v1/upload-to-dropbox", "status": 202,
        "document": seen.document,
    }  # fmt: skip
    assert KEY not in str(seen.functions + seen.worker)


def test_both_programs_have_metrics(seen: Seen) -> None:
    """The worker of documents, the functions of requests and of the database."""
    counted = seen.metrics
    assert counted["pagewarden_claims_total"] == {("pdf",): 1}
    assert counted["pagewarden_documents_total"] == {("pdf", "completed"): 1}
    assert counted["pagewarden_pages_total"] == {("pdf", "read"): PAGES}
    assert counted["pagewarden_document_seconds_count"] == {("pdf",): 1}
    assert counted["pagewarden_uploads_total"] == {("pdf",): 1}
    assert counted["pagewarden_upload_bytes_total"] == {(): len(house.READABLE_PDF)}
    requests = counted["pagewarden_http_requests_total"]
    assert requests["POST", "/functions/v1/upload-to-dropbox", "202"] == 1
    assert counted["pagewarden_database_up"] == {(): 1}
    assert counted["pagewarden_queue_documents"]["now", "pdf"] == 0
