"""Configuration from settings and hardware."""

from __future__ import annotations

import pytest

from gpu_service import config
from gpu_service.config import ServiceConfig
from pagewarden import errors, settings
from pagewarden.reading.lines import networks


def test_config_follows_settings_and_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default engine is `batched` on a GPU and `cascade` on a CPU."""
    cpu = networks.Device(networks.CPU, 1)
    monkeypatch.setattr(config, "choose_device", lambda: cpu)
    given = settings.Settings(
        supabase_key="a key that is long enough to be none of the weak ones",  # type: ignore[arg-type]
        files_public_url="https://files.example/open",  # type: ignore[arg-type]
        files_signing_key="bkVx0UGM5xyfXx6nNxWDo7dVv8uJ1a2b",  # type: ignore[arg-type]
        gpu_documents=3,
        upload_max_bytes=1000,
    )
    made = ServiceConfig.from_settings(given)
    assert (made.engine, made.documents, made.max_bytes) == ("cascade", 3, 1000)
    assert (made.store_urls, made.check_test_line) == (("https://files.example/open",), True)
    assert made.key not in repr(made)
    gpu = networks.Device(networks.CUDA, 1)
    monkeypatch.setattr(config, "choose_device", lambda: gpu)
    assert ServiceConfig.from_settings(given).engine == "batched"
    assert not ServiceConfig.from_settings(given, engine="null").check_test_line
    with pytest.raises(errors.EngineMissing, match="there is no engine 'nope'"):
        ServiceConfig.from_settings(given, engine="nope")


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_unusable_gpu_falls_back_to_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Onnxruntime lists CUDA if built with it, and silently skips it where it does not work."""
    monkeypatch.setattr(networks, "available", lambda: [networks.CUDA, networks.CPU])
    monkeypatch.setattr("onnxruntime.preload_dlls", lambda: None)
    assert config.choose_device().provider == networks.CPU
