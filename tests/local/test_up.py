"""pagewarden up: where its parts may listen, and what becomes of what they say."""

from __future__ import annotations

import json
import socket

import pytest

from pagewarden import errors, settings
from pagewarden.cli import up
from pagewarden.telemetry import logs
from tests.support import lines


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", "AF_INET"), ("::1", "AF_INET6")])
def test_a_port_that_is_taken_is_told_of_before_anything_is_started(host: str, family: str) -> None:
    """Of both families; once it is free, nothing is said."""
    with socket.socket(socket.AddressFamily[family]) as taken:
        try:
            taken.bind((host, 0))
        except OSError:
            pytest.skip(f"{host} is not there")
        taken.listen()
        url = up.make_url(host, taken.getsockname()[1])
        with pytest.raises(errors.LocalStackError, match="cannot listen on"):
            up.require_free_port(url)
    up.require_free_port(url)


def test_a_url_without_a_port_means_the_usual_one() -> None:
    """That is no error of ours; whether the port may be had is another question."""
    try:
        up.require_free_port("http://127.0.0.1")
    except errors.LocalStackError as exc:
        assert "cannot listen on" in str(exc)  # noqa: PT017  # depends on the machine


def test_a_host_that_is_not_this_machine_is_refused_with_a_reason() -> None:
    """The message says which."""
    with pytest.raises(errors.LocalStackError, match=r"nowhere\.invalid:54321"):
        up.require_free_port("http://nowhere.invalid:54321")


@pytest.mark.parametrize(
    ("port", "given"), [(None, None), (54340, "54340"), (0, "0"), (65_535, "65535")]
)
def test_a_worker_gets_the_port_for_its_metrics(port: int | None, given: str | None) -> None:
    """Functions and GPU service have theirs."""
    chosen = settings.Settings(metrics_port=port)
    parts = {
        part.name: part
        for part in up.list_programs(chosen, "http://127.0.0.1:1", with_gpu_service=True)
    }
    assert list(parts) == ["functions", "worker", "gpu"]
    assert parts["worker"].environment.get("PAGEWARDEN_METRICS_PORT") == given
    assert "PAGEWARDEN_METRICS_PORT" not in parts["functions"].environment


def test_without_workers_the_functions_call_each_other() -> None:
    """The GPU service stays: it is where PDFs are read."""
    url = "http://127.0.0.1:1"
    functions, gpu = up.list_programs(
        settings.Settings(), "http://127.0.0.1:2", with_gpu_service=True, functions_url=url
    )
    assert (functions.name, gpu.name) == ("functions", "gpu")
    dispatch = {"PAGEWARDEN_DISPATCH": "http", "PAGEWARDEN_FUNCTIONS_URL": url}
    assert functions.environment.items() >= dispatch.items()


@pytest.mark.parametrize("chosen_format", logs.FORMATS)
def test_parts_write_as_the_whole_does(monkeypatch: pytest.MonkeyPatch, chosen_format: str) -> None:
    """They write to a pipe, and would think that nobody looks."""
    monkeypatch.setenv(logs.FORMAT_SETTING, chosen_format)
    for part in up.list_programs(settings.Settings(), "http://127.0.0.1:1", with_gpu_service=True):
        assert part.environment[logs.FORMAT_SETTING] == chosen_format


def test_lines_of_parts_stay_json_with_the_name_of_the_part(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever a part may write."""
    up.print_json_line("worker", '{"event": "completed", "pages": 3, "name": "d\u00e9j\u00e0"}')
    (line,) = capsys.readouterr().err.splitlines()
    expected = {"event": "completed", "pages": 3, "name": "d\u00e9j\u00e0", "part": "worker"}
    assert json.loads(line) == expected
    with lines.capture_lines() as found:
        up.print_json_line("gpu", "a library says something")
        up.print_json_line("gpu", "[1, 2]")
        up.print_json_line("gpu", "")
    assert [line["line"] for line in found] == ["a library says something", "[1, 2]"]
    assert {line["part"] for line in found} == {"gpu"}
