"""`doctor` and the power meter of a system: its director, and the configuration of the kit's server."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Reconcile
from tests.unit.cli.test_doctor_advice import SPEC, look, repository

__all__ = ["repository"]


@pytest.fixture
def director() -> Iterator[int]:
    """A port of the loopback interface at which something answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def declare_meter(repository: Path, port: int) -> None:
    meter = f"hardware: {{count: 0}}\n      power: {{director: '127.0.0.1:{port}', ntp: localhost, kit: kit}}"
    spec = SPEC.replace("hardware: {accelerator: NVIDIA H200, count: 2}", meter)
    (repository / "specs/acme.yaml").write_text(spec.replace("tensorrt", "onnxruntime"))


def test_a_director_that_answers_and_one_that_does_not(repository: Path, reconcile: Reconcile, director: int) -> None:
    declare_meter(repository, director)
    assert [each["missing"] for each in look(reconcile)] == [False]
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        declare_meter(repository, bound.getsockname()[1])
        (found,) = look(reconcile)
    assert (found["missing"], bool(found["fix"])) == (True, True)


@pytest.mark.parametrize("name", ["kit/server.cfg", f"power/server-{platform.node()}.cfg"])
def test_the_configuration_of_the_kits_server(repository: Path, reconcile: Reconcile, director: int, name: str) -> None:
    declare_meter(repository, director)
    file = repository / name
    file.parent.mkdir()
    file.write_text(f"[server]\n# ours\nlisten: 0.0.0.0 {director}\n\n[ptd]\nnetworkPort: 8888\ndevicePort: 10.0.0.9\n")
    assert [each for each in look(reconcile) if each["advice"]] == []
    file.write_text(f"[server]\noutDir: C:\\ptd%logs\n[ptd]\nnetworkPort: {director}\n")
    (found,) = (each for each in look(reconcile) if each["advice"])
    assert ("4950" in found["text"], str(director) in found["text"]) == (True, True)
    file.write_text(f"[server]\nlisten: 0.0.0.0 {director}\n[ptd]\nnetworkPort: {director}\n")
    (found,) = (each for each in look(reconcile) if each["advice"])
    assert found["where"] == str(file)
    file.write_text("no configuration\n")
    assert [each for each in look(reconcile) if each["advice"]] == []
