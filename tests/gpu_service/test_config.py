"""Configuration from settings and hardware."""

from __future__ import annotations

import pytest

from pagewarden import errors, settings
from pagewarden.gpu_service import config
from pagewarden.gpu_service.config import ServiceConfig
from pagewarden.ocr.lines import ppocr_models


def test_config_follows_settings_and_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default engine is `batched` on a GPU and `cascade` on a CPU."""
    cpu = ppocr_models.Device(ppocr_models.CPU, 1)
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
    gpu = ppocr_models.Device(ppocr_models.CUDA, 1)
    monkeypatch.setattr(config, "choose_device", lambda: gpu)
    assert ServiceConfig.from_settings(given).engine == "batched"
    assert not ServiceConfig.from_settings(given, engine="null").check_test_line
    with pytest.raises(errors.EngineNotInstalled, match="unknown engine 'nope'"):
        ServiceConfig.from_settings(given, engine="nope")


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_unusable_gpu_falls_back_to_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Onnxruntime lists CUDA if built with it, and silently skips it where it does not work."""
    monkeypatch.setattr(
        ppocr_models, "list_providers", lambda: [ppocr_models.CUDA, ppocr_models.CPU]
    )
    monkeypatch.setattr("onnxruntime.preload_dlls", lambda: None)
    assert config.choose_device().provider == ppocr_models.CPU
