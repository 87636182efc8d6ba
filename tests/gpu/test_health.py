"""Alive, ready, and counted."""

from __future__ import annotations

import pytest
from prometheus_client import parser

from gpu_service import devices, plans, readers, service
from pagewarden import errors, settings
from pagewarden.reading.lines import networks
from tests.gpu import places
from tests.reading import drawn


async def test_a_service_is_ready_when_it_has_read_something() -> None:
    """Before that it lives, and asks for patience."""
    async with places.opened() as place:
        early = await place.session.get("/readyz")
        assert (early.status_code, early.headers["retry-after"]) == (503, "1")
        assert places.lines(early)[0]["error"]["code"] == "Starting"
        assert (await place.read(b"x")).status_code == 503
        assert (await place.session.get("/healthz")).json() == {"status": "ok"}
        await places.is_ready(place.session)
        assert (await place.read(drawn.numbered(1))).status_code == 200
        await _counts(place)
        paths = (await place.session.get("/openapi.json")).json()["paths"]
        assert set(paths) == {"/v1/read", "/v1/about", "/healthz", "/readyz", "/metrics"}


async def _counts(place: places.Place) -> None:
    """The meters can be parsed, and have counted one document of one page."""
    text = (await place.session.get("/metrics")).text
    names = {family.name for family in parser.text_string_to_metric_families(text)}
    wanted = "pages documents document_seconds documents_inside refusals batch_lines batch_pages"
    assert {f"pagewarden_gpu_{name}" for name in wanted.split()} <= names
    assert await place.meter("pagewarden_gpu_pages_total", source="ocr") == 1
    assert await place.meter("pagewarden_gpu_documents_total", end="read") == 1
    assert await place.meter("pagewarden_gpu_document_seconds_count") == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"engine": "fake-unloadable"}, "the models are missing; install them"),
        ({"engine": "null", "test_line": True}, "was read as ''"),
    ],
)
async def test_a_service_that_cannot_read_is_to_be_started_again(
    changes: dict[str, object], reason: str
) -> None:
    """It says why; whoever sends it a document takes it for away."""
    async with places.opened(**changes) as place, place.client() as client:
        with pytest.raises(errors.EngineAway, match=reason):
            await client.about()
        for path in ("/healthz", "/readyz"):
            answer = await place.session.get(path)
            assert answer.status_code == 503
            assert reason in answer.text


async def test_a_service_that_failed_once_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lane would stay paused until a person starts it again."""
    prove, failures = readers.Readers.prove, [errors.ReaderKilled("the process died")]

    async def prove_later(made: readers.Readers) -> None:
        if failures:
            raise failures.pop()
        await prove(made)

    monkeypatch.setattr(readers.Readers, "prove", prove_later)
    monkeypatch.setattr(service, "PROVE_PAUSES", (0.0,))
    async with places.opened() as place:
        await places.is_ready(place.session)
        assert (await place.session.get("/healthz")).status_code == 200
    assert failures == []


def test_settings_say_how_a_service_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU lines are read in batches; on a CPU the cascade is quicker."""
    cpu = networks.Device(networks.CPU, 1)
    monkeypatch.setattr(devices, "best", lambda: cpu)
    chosen = settings.Settings(
        supabase_key="a key that is long enough to be none of the weak ones",  # type: ignore[arg-type]
        files_public_url="https://files.example/open",  # type: ignore[arg-type]
        files_signing_key="bkVx0UGM5xyfXx6nNxWDo7dVv8uJ1a2b",  # type: ignore[arg-type]
        gpu_documents=3,
        upload_max_bytes=1000,
    )
    plan = plans.of_settings(chosen)
    assert (plan.engine, plan.documents, plan.max_bytes) == ("cascade", 3, 1000)
    assert (plan.stores, plan.test_line) == (("https://files.example/open",), True)
    assert plan.key not in repr(plan)
    gpu = networks.Device(networks.CUDA, 1)
    monkeypatch.setattr(devices, "best", lambda: gpu)
    assert plans.of_settings(chosen).engine == "batched"
    assert not plans.of_settings(chosen, engine="null").test_line
    with pytest.raises(errors.EngineMissing, match="there is no engine 'nope'"):
        plans.of_settings(chosen, engine="nope")


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_gpu_that_does_not_work_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA is listed wherever onnxruntime was built with it, and quietly left out."""
    monkeypatch.setattr(networks, "available", lambda: [networks.CUDA, networks.CPU])
    monkeypatch.setattr("onnxruntime.preload_dlls", lambda: None)
    assert devices.best().provider == networks.CPU
