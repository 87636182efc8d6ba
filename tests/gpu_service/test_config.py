"""What settings and hardware make of the service."""

from __future__ import annotations

import pytest

from gpu_service import config
from pagewarden import errors, settings
from pagewarden.reading.lines import networks


def test_settings_say_how_a_service_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU lines are read in batches; on a CPU the cascade is quicker."""
    cpu = networks.Device(networks.CPU, 1)
    monkeypatch.setattr(config, "best", lambda: cpu)
    chosen = settings.Settings(
        supabase_key="a key that is long enough to be none of the weak ones",  # type: ignore[arg-type]
        files_public_url="https://files.example/open",  # type: ignore[arg-type]
        files_signing_key="bkVx0UGM5xyfXx6nNxWDo7dVv8uJ1a2b",  # type: ignore[arg-type]
        gpu_documents=3,
        upload_max_bytes=1000,
    )
    plan = config.of_settings(chosen)
    assert (plan.engine, plan.documents, plan.max_bytes) == ("cascade", 3, 1000)
    assert (plan.stores, plan.test_line) == (("https://files.example/open",), True)
    assert plan.key not in repr(plan)
    gpu = networks.Device(networks.CUDA, 1)
    monkeypatch.setattr(config, "best", lambda: gpu)
    assert config.of_settings(chosen).engine == "batched"
    assert not config.of_settings(chosen, engine="null").test_line
    with pytest.raises(errors.EngineMissing, match="there is no engine 'nope'"):
        config.of_settings(chosen, engine="nope")


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_gpu_that_does_not_work_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA is listed wherever onnxruntime was built with it, and quietly left out."""
    monkeypatch.setattr(networks, "available", lambda: [networks.CUDA, networks.CPU])
    monkeypatch.setattr("onnxruntime.preload_dlls", lambda: None)
    assert config.best().provider == networks.CPU
