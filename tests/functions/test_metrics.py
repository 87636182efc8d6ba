"""GET /metrics: what the server counts, how things stand, and who may know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import parser
from pydantic import SecretStr

from pagewarden.functions.http import monitoring
from tests.database import test_metrics
from tests.documents import readers
from tests.functions import house

if TYPE_CHECKING:
    from pagewarden import database as gateways
    from pagewarden import settings as settings_module
    from tests.functions.house import House
    from tests.support import databases

TOKEN = "a-token-for-whoever-scrapes-0123456789"

Samples = dict[tuple[str, ...], float]


async def _scraped(functions: House, **options: Any) -> dict[str, Samples]:
    answer = (await functions.session.get("/metrics", **options)).raise_for_status()
    return _samples(answer.text)


def _samples(text: str) -> dict[str, Samples]:
    found: dict[str, Samples] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels = (sample.labels[name] for name in sorted(sample.labels))
            found.setdefault(sample.name, {})[tuple(labels)] = sample.value
    return found


def _grown(before: dict[str, Samples], after: dict[str, Samples], name: str) -> Samples:
    was = before.get(name, {})
    return {key: n - was.get(key, 0) for key, n in after[name].items() if n != was.get(key, 0)}


async def test_requests_and_uploads_are_counted_whatever_their_paths(functions: House) -> None:
    """A route is one series, however many documents it is asked for; so are unknown paths."""
    user = await functions.factory.user()
    before = await _scraped(functions)
    for content, name in ((house.PNG, "a.png"), (house.PDF, "b.pdf"), (b"words", "c.txt")):
        (await functions.upload(user, content, name)).raise_for_status()
    for document in await functions.documents():
        await functions.call("GET", f"documents/{document['id']}", user=user)
    for path in ("/nothing/here", "/nor/there"):
        await functions.session.request("BREW", path)
    after = await _scraped(functions)
    one = "/functions/v1/documents/{document_id}"
    assert _grown(before, after, "pagewarden_http_requests_total") == {
        ("GET", "/metrics", "200"): 1,
        ("POST", "/functions/v1/upload-to-dropbox", "202"): 3,
        ("GET", one, "200"): 3,
        ("other", "unmatched", "404"): 2,
    }
    timed = _grown(before, after, "pagewarden_http_request_seconds_count")
    assert timed["GET", one] == 3
    uploads = _grown(before, after, "pagewarden_uploads_total")
    assert uploads == {("image",): 1, ("pdf",): 1, ("none",): 1}
    size = len(house.PNG) + len(house.PDF) + len(b"words")
    assert _grown(before, after, "pagewarden_upload_bytes_total") == {(): size}


def _database_metrics() -> set[str]:
    return set(monitoring.FAMILIES) - {monitoring.UP}


async def test_how_things_stand_is_told_too(functions: House) -> None:
    """By lane, category and so on, as the database counts them."""
    await functions.factory.claimed()
    await functions.factory.queued(lane="pdf")
    await functions.factory.dead_letter(category="permanent")
    await functions.factory.call("pause_lane", p_lane="pdf", p_reason="maintenance")
    job = await functions.factory.check_job()
    await functions.factory.conn.execute(test_metrics.STARTED_EARLIER, (100, job))
    await functions.factory.call("cancel_check_job", p_job_id=job)
    assert (await functions.serve("stale-monitor")).is_success
    found = await _scraped(functions)
    assert found["pagewarden_database_up"] == {(): 1}
    assert found["pagewarden_queue_documents"]["now", "pdf"] == 1
    assert found["pagewarden_queue_documents"]["later", "image"] == 0
    assert found["pagewarden_processing_documents"][("image",)] == 1
    assert found["pagewarden_lane_paused"] == {
        ("pdf",): 1, **dict.fromkeys([("acte",), ("check",), ("image",), ("index",)], 0),
    }  # fmt: skip
    assert found["pagewarden_dead_letters"][("permanent",)] == 1
    jobs = {
        limit: n
        for (limit, outcome), n in found["pagewarden_check_job_seconds_bucket"].items()
        if outcome == "CANCELLED"
    }
    assert jobs == {
        "1": 0, "5": 0, "15": 0, "60": 0, "300": 1, "900": 1, "3600": 1, "+Inf": 1,
    }  # fmt: skip
    assert 100 <= found["pagewarden_check_job_seconds_sum"][("CANCELLED",)] < 200
    assert found["pagewarden_function_starts_total"] == {("stale-monitor",): 1}
    assert found["pagewarden_function_seconds_count"]["stale-monitor", "completed"] == 1
    assert found["pagewarden_volume_stage_seconds_count"]["failed", "ocr"] == 0
    shown = {name for name in _database_metrics() for one in found if one.startswith(name)}
    assert shown == _database_metrics()


async def test_scrape_without_database_reports_it_down_and_omits_its_gauges(
    functions: House, database: databases.Database
) -> None:
    """The scrape itself succeeds, and the counters of the process stay."""
    # The request counter has no sample before the first request. /metrics would cache its gauges.
    (await functions.session.get("/healthz")).raise_for_status()
    async with database.refuse_connections():
        found = await _scraped(functions)
    assert found["pagewarden_database_up"] == {(): 0}
    assert not {name for name in found for one in _database_metrics() if name.startswith(one)}
    assert "pagewarden_http_requests_total" in found


async def test_the_database_is_asked_once_for_all_who_ask_within_a_few_seconds(
    gateway: gateways.Database,
) -> None:
    """Any number of scrapers cost it no more than one."""
    counted, now = readers.Counted(gateway), [0.0]
    stands = monitoring.DatabaseMetrics(counted, clock=lambda: now[0])
    for _ in range(3):
        await stands.to_prometheus_text()
    assert counted.names == ["system_metrics"]
    now[0] = monitoring.CACHE_SECONDS
    assert _samples((await stands.to_prometheus_text()).decode())["pagewarden_database_up"] == {
        (): 1
    }
    assert counted.names == ["system_metrics"] * 2


@pytest.fixture
def chosen(chosen: settings_module.Settings) -> settings_module.Settings:
    """Have a token for scrapers."""
    return chosen.model_copy(update={"metrics_token": SecretStr(TOKEN)})


async def test_whoever_comes_from_elsewhere_needs_a_key(functions: House) -> None:
    """The refusal says which, and tells nothing; so it does to a page that a browser shows."""
    elsewhere = {"X-Real-IP": "198.51.100.7"}
    for credential in (None, "wrong", TOKEN, house.KEYS.secret_key):
        key = {"Authorization": f"Bearer {credential}"} if credential else {}
        answer = await functions.session.get("/metrics", headers={**elsewhere, **key})
        if credential in (TOKEN, house.KEYS.secret_key):
            assert "pagewarden_build_info" in answer.text
        else:
            assert answer.status_code == 401
            assert "PAGEWARDEN_METRICS_TOKEN" in answer.json()["message"]
    led_here = await functions.session.get("/metrics", headers={"Host": "evil.example"})
    assert led_here.status_code == 401
    # The token may lie around where Prometheus is, and opens nothing else.
    answer = await functions.post("stale-monitor", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 401
