"""`reconcile detect`: what it proposes, what it writes, and what it leaves as people wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.contract import ProbeRequest
from reconciler.errors import ReconcilerError
from reconciler.observed import machine
from reconciler.reconcile import machine_description
from reconciler.spec.edit import read, set_value
from reconciler.spec.proposal import propose
from reconciler.spec.system_proposal import describe
from reconciler.storage.launch.launcher import Launcher
from reconciler.storage.launch.nodes import find_differences, probe_nodes
from tests.unit.cli.conftest import Reconcile

SPEC = """\
spec:
  systems:   # all of them
    box:
      category: edge   # stays
      status: available
      hardware: {count: 0}
      description:
        cooling: water   # ours
        host_memory_capacity: not declared
        host_networking: Carrier pigeon
"""


def node(gpus: int = 0, **facts: Any) -> dict[str, Any]:
    device = {"name": "NVIDIA H200", "memory_bytes": 143771 * 2**20, "pcie_generation": 5, "pcie_width": 16}
    device |= {"ecc": True, "mig": False, "driver": "580.1", "nvlink": {"links": 18, "version": 4}}
    hardware = {"host": "n1", "cpu.model": "AMD EPYC 9654", "cpu.sockets": 2, "cpu.cores_per_socket": 96, **facts}
    return {"hardware": {**hardware, "memory.bytes": 2**41}, "accelerators": [device] * gpus, "loadgen": "5.1"}


def test_values_obey_the_checkers() -> None:
    found = propose(node())
    assert found.description["accelerators_per_node"] == "0"
    assert found.description["accelerator_interconnect"] == "N/A"
    assert found.description["host_processors_per_node"] == "2"
    assert found.description["number_of_nodes"] == "1"
    assert "is_network" not in found.description
    assert all(isinstance(value, str) and value for value in found.description.values())
    assert found.hardware == {"count": 0, "cpu": "AMD EPYC 9654"}


def test_accelerators_with_their_links() -> None:
    found = propose(node(gpus=8), nodes=2)
    wanted = {
        "number_of_nodes": "2",
        "accelerators_per_node": "8",
        "accelerator_memory_capacity": "140 GiB",
        "accelerator_memory_configuration": "ECC on",
        "accelerator_host_interconnect": "PCIe Gen5 x16",
        "accelerator_interconnect": "NVLink 4, 18 links per GPU",
    }
    assert wanted.items() <= found.description.items()
    assert found.hardware == {"accelerator": "NVIDIA H200", "count": 8, "nodes": 2}
    assert "host_networking_topology" in found.unread


def test_slices_of_gpus_are_reported_in_hardware_and_description() -> None:
    here = node(gpus=2)
    small, large = {"profile": "1g.18gb", "memory_bytes": 16384 << 20}, {"profile": "3g.71gb", "memory_bytes": 0}
    here["accelerators"] = [{**gpu, "mig": True, "slices": [small] * 3} for gpu in here["accelerators"]]
    found = propose(here)
    assert found.hardware["mig"] == {"profile": "1g.18gb", "count": 6}
    assert found.description["accelerator_model_name"] == "NVIDIA H200 (MIG 6x 1g.18gb)"
    assert found.description["accelerator_memory_capacity"] == "140 GiB (16.0 GiB in 1g.18gb)"
    here["accelerators"][0]["slices"] = [large]
    assert propose(here).hardware["mig"] == [{"profile": "3g.71gb", "count": 1}, {"profile": "1g.18gb", "count": 3}]
    described = describe(SPEC.replace("{count: 0}", ""), "box", propose(here))
    written = read(described.text)["spec"]["systems"]["box"]["hardware"]["mig"]
    assert written == [{"profile": "3g.71gb", "count": "1"}, {"profile": "1g.18gb", "count": "3"}]
    assert "MIG 1x 3g.71gb, 3x 1g.18gb" in described.text


def test_gpu_of_a_board_that_nvml_does_not_list() -> None:
    found = propose(node(tegra=True, product="NVIDIA Jetson AGX Orin"))
    assert found.description["accelerators_per_node"] == "1"
    assert found.description["accelerator_memory_capacity"] == "shared with the host"


def test_gpus_without_nvml_are_named_and_the_rest_is_left_out() -> None:
    found = propose({"hardware": {"gpus": ["NVIDIA H200", "NVIDIA H200"]}, "accelerators": []})
    assert found.description["accelerators_per_node"] == "2"
    assert {"accelerator_memory_capacity", "accelerator_interconnect"} <= set(found.unread)


def test_unknown_machine_is_welcome() -> None:
    found = propose({"hardware": {}})
    assert found.description["accelerators_per_node"] == "0"
    assert {"host_processor_model_name", "host_memory_capacity", "cooling"} <= set(found.unread)


def test_what_people_wrote_stays() -> None:
    found = describe(SPEC, "box", propose(node()))
    description = read(found.text)["spec"]["systems"]["box"]["description"]
    assert (description["cooling"], description["host_networking"]) == ("water", "Carrier pigeon")
    assert description["host_memory_capacity"] == "2048 GiB"
    assert found.kept == {"host_networking": ("Carrier pigeon", "N/A")}
    assert "cooling" not in found.missing
    assert "framework" in found.missing
    assert all(line in found.text for line in ("# all of them", "category: edge   # stays", "cooling: water   # ours"))
    assert describe(found.text, "box", propose(node())).text == found.text


def test_overwrite_takes_what_was_read() -> None:
    found = describe(SPEC, "box", propose(node()), overwrite=True)
    assert "host_networking: N/A" in found.text
    assert "cooling: water   # ours" in found.text
    assert not found.kept


def test_new_system_is_added_in_lines_of_its_own() -> None:
    found = describe(SPEC, "h200x8", propose(node(gpus=8)))
    assert found.text.startswith(SPEC)
    assert "    h200x8:\n      category: datacenter\n" in found.text
    assert read(found.text)["spec"]["systems"]["h200x8"]["hardware"] == {"accelerator": "NVIDIA H200", "count": "8"}


def test_system_written_in_one_line() -> None:
    text = "spec:\n  systems: {box: {category: edge, status: available}}\n"
    found = describe(text, "box", propose(node()))
    assert read(found.text)["spec"]["systems"]["box"]["description"]["accelerators_per_node"] == "0"


def test_command_shows_then_writes_then_has_nothing_to_say(declared: Path, reconcile: Reconcile) -> None:
    spec = declared / "specs/one.yaml"
    before = spec.read_text()
    out = reconcile.succeed("detect")
    assert "+        host_memory_capacity:" in out
    assert "use --write" in out
    assert spec.read_text() == before
    assert reconcile("detect", "--write")[0] == 0
    assert "host_memory_capacity" in spec.read_text()
    assert reconcile("validate")[0] == 0
    assert "every readable value" in reconcile("detect")[1]


def test_report_as_json(declared: Path, reconcile: Reconcile) -> None:
    found = reconcile.report("detect", "--system", "other")
    assert (found["system"], found["written"], found["changed"]) == ("other", False, True)
    assert found["description"]["number_of_nodes"] == "1"
    assert "cooling" in found["unread"]


def test_no_spec_shows_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile) -> None:
    monkeypatch.chdir(tmp_path)
    out = reconcile.succeed("detect", "--system", "box")
    assert out.startswith("box:\n  hardware:\n")
    assert reconcile("detect", "--write")[0] == 1


def launcher(folder: Path, text: str) -> str:
    path = folder / "launch.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_launcher_of_two_local_processes(declared: Path, reconcile: Reconcile) -> None:
    words = launcher(declared, 'RANK=1 "$@" &\nRANK=0 "$@"\nwait')
    found = reconcile.report("detect", "--launcher", words)
    assert [node["rank"]["all"] for node in found["nodes"]] == [0, 1]
    assert found["description"]["number_of_nodes"] == "2"
    assert found["differences"] == []
    assert not list((declared / ".reconcile").glob("*probe-*"))


def test_declared_launcher_of_the_system_is_the_one(declared: Path, reconcile: Reconcile) -> None:
    words = launcher(declared, 'RANK=1 "$@" &\nRANK=0 "$@"\nwait')
    spec = declared / "specs/one.yaml"
    system = next(iter(read(spec.read_text())["spec"]["systems"]))
    text = set_value(spec.read_text(), ("spec", "systems", system, "launcher"), "WORDS")
    spec.write_text(text.replace("launcher: WORDS", f'launcher: ["{words}"]'))
    found = reconcile.report("detect")
    assert (found["system"], len(found["nodes"])) == (system, 2)
    assert len(reconcile.report("detect", "--launcher", "env")["nodes"]) == 1


def test_processes_of_one_node_count_once(tmp_path: Path) -> None:
    words = launcher(tmp_path, 'SLURM_PROCID=1 SLURM_LOCALID=1 "$@" &\nSLURM_PROCID=0 SLURM_LOCALID=0 "$@"\nwait')
    assert len(probe_nodes(ProbeRequest(hardware=True), Launcher((words,)), tmp_path / "shared")) == 1


def test_launcher_that_fails_is_quoted(tmp_path: Path) -> None:
    words = launcher(tmp_path, "echo no such partition >&2; exit 3")
    with pytest.raises(ReconcilerError, match="status 3 and 0 answers\nno such partition"):
        probe_nodes(ProbeRequest(hardware=True), Launcher((words,)), tmp_path / "shared")


def test_nodes_that_differ_are_named() -> None:
    nodes = (node(gpus=8), node(gpus=7, host="n2"))
    found = find_differences(nodes, lambda each: propose(each).description)
    assert found == ["node 2 (n2): accelerators_per_node is 7; on node 1 8"]


def test_another_machine_is_distinct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile) -> None:
    (tmp_path / "specs").mkdir()
    path = tmp_path / "specs/one.yaml"
    path.write_text(SPEC.replace("{count: 0}", "{accelerator: NVIDIA H200, count: 8}"))
    monkeypatch.chdir(tmp_path)
    code, _, err = reconcile("detect", "--system", "box")
    assert code == 0
    assert "Warning: this machine is not box: the system declares 8 x NVIDIA H200" in err
    before = path.read_text()
    code, _, err = reconcile("detect", "--system", "box", "--write")
    assert (code, "this machine is not box" in err, path.read_text() == before) == (1, True, True)
    assert reconcile("detect", "--system", "box", "--write", "--overwrite")[0] == 0
    assert path.read_text() != before


SYSTEMS = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: several}
spec:
  round: v6.1
  submitter: ACME
  systems:
    host: {category: datacenter, status: available, description: {cooling: water}}
    h200x8: {extends: host, hardware: {accelerator: NVIDIA H200, count: 8}}
    h200x4: {extends: h200x8, hardware: {count: 4}}
    cpu: {extends: host, hardware: {count: 0}}
"""


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose spec declares several systems."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/several.yaml").write_text(SYSTEMS)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "specs/several.yaml"


@pytest.mark.parametrize(
    ("gpus", "system"),
    [
        ([], "cpu"),
        (["NVIDIA H200"] * 8, "h200x8"),
        (["NVIDIA H200"] * 4, "h200x4"),
        (["NVIDIA H200"] * 6, "h200x4"),  # which needs no more
    ],
)
def test_this_machine_is_found_among_several_systems(
    several: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, gpus: list[str], system: str
) -> None:
    for module in (machine_description, machine):
        monkeypatch.setattr(module, "list_accelerators", lambda: gpus)
    assert reconcile.report("detect", ends=0)["system"] == system


@pytest.mark.parametrize(
    ("gpus", "more"), [(["NVIDIA L4"], ""), (["NVIDIA H200"] * 8, "    maxq: {extends: h200x8}\n")]
)
def test_a_machine_that_is_none_or_more_than_one_is_asked_for(
    several: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, gpus: list[str], more: str
) -> None:
    for module in (machine_description, machine):
        monkeypatch.setattr(module, "list_accelerators", lambda: gpus)
    several.write_text(SYSTEMS + more)
    code, out, err = reconcile("detect", "--json")
    assert (code, out, "--system" in err, "maxq" in err) == (1, "", True, bool(more))


def test_what_a_system_takes_from_another_is_not_written_again(several: Path, reconcile: Reconcile) -> None:
    found = describe(SYSTEMS, "h200x4", propose(node(gpus=4)))
    own = read(found.text)["spec"]["systems"]["h200x4"]
    assert own["hardware"] == {"count": "4"}
    assert "cooling" not in own["description"]
    assert own["description"]["accelerators_per_node"] == "4"
    several.write_text(found.text)
    assert reconcile("validate")[0] in (0, 2)
    again = describe(found.text, "h200x4", propose(node(gpus=4)))
    assert again.text == found.text
