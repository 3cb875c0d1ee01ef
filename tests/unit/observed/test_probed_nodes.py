"""Machines that only a probe can tell of: what of them contradicts a declared system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.observed.observe import find_unlike_systems, list_installed_for
from reconciler.observed.probed_nodes import (
    NodeFacts,
    find_unlike_nodes,
    name_nodes,
    needs_probe,
    read_probed_nodes,
    summarise_node,
    write_probed_nodes,
)
from reconciler.resource.settings import Settings, SystemSettings
from reconciler.storage.files import RepositoryPaths

SRUN = {"system.launcher": ["srun", "-N", "2"]}


def node(host: str = "n0", gpus: int = 2, **gpu: Any) -> dict[str, Any]:
    device = {"name": "NVIDIA H200", "power_limit_watts": 700.0, "driver": "580.1", "uuid": "GPU-1", **gpu}
    machine = {"machine.host": host, "machine.cpu": "AMD EPYC 9654", "machine.kernel": "Linux 6.8"}
    return {"machine": machine, "accelerators": [device] * gpus, "backends": {"tensorrt": "10.1"}, "loadgen": "5.1"}


def seen(*nodes: dict[str, Any]) -> NodeFacts:
    return NodeFacts(tuple(map(summarise_node, nodes)))


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({}, ""),
        ({"hardware.accelerator": "H200", "hardware.count": 2, "hardware.nodes": 2}, ""),
        ({"hardware.accelerator": "H200", "hardware.count": 8}, "8 x H200; node n0 has 2 x NVIDIA H200"),
        ({"hardware.accelerator": "B200"}, "1 x B200; node n0 has 2 x NVIDIA H200"),
        ({"hardware.nodes": 4}, "4 nodes; its launcher reaches 2 nodes"),
        ({"hardware.cpu": "Xeon"}, "node n0 has 'AMD EPYC 9654'"),
        ({"hardware.count": 2, "hardware.power_limit": 700_000}, ""),
        ({"hardware.count": 2, "hardware.power_limit": 700_400}, ""),
        ({"hardware.count": 2, "hardware.power_limit": 500_000}, "500 W; GPU 0 of node n0 has 700 W"),
    ],
)
def test_nodes_that_are_not_what_is_declared(declared: dict[str, Any], said: str) -> None:
    found = find_unlike_nodes(Settings({**SRUN, **declared}), seen(node(), node("n1")))
    assert (found is None) == (said == "")
    if found is not None:
        assert said in found.message
        assert found.fix


def test_one_node_of_many_is_enough() -> None:
    found = find_unlike_nodes(
        Settings({**SRUN, "hardware.accelerator": "H200", "hardware.count": 2}), seen(node(), node("n7", 1))
    )
    assert found is not None
    assert "node n7 has 1 x NVIDIA H200" in found.message


def test_power_limit_of_this_machine() -> None:
    """It needs no launcher: nothing but a probe reads it."""
    declared = Settings({"hardware.count": 1, "hardware.power_limit": 300_000})
    assert needs_probe(declared)
    assert not needs_probe(Settings({"hardware.count": 1}))
    found = find_unlike_nodes(declared, seen(node()))
    assert found is not None
    assert found.message == "the system declares a power limit of 300 W; GPU 0 of this machine has 700 W"
    assert found.fix == "set it there: nvidia-smi --power-limit 300"
    unread = find_unlike_nodes(declared, seen(node(power_limit_watts=None)))
    assert unread is not None
    assert "cannot be read" in unread.message
    none = find_unlike_nodes(declared, seen(node(gpus=0)))
    assert none is not None
    assert "has no GPU" in none.message


SLICED = {"hardware.accelerator": "A100", "hardware.count": 1, "hardware.mig": "1x 3g.40gb, 2x 1g.10gb"}


def cut(*profiles: str, mig: bool | None = True) -> dict[str, Any]:
    parts = {"slices": [{"uuid": f"MIG-{n}", "profile": profile} for n, profile in enumerate(profiles)]}
    return node(gpus=1, name="NVIDIA A100", **(parts if profiles else {}), **({} if mig is None else {"mig": mig}))


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (cut("1g.10gb", "3g.40gb", "1g.10gb"), ""),
        (cut("1g.10gb", "3g.40gb", "1g.10gb", "1g.10gb"), ""),
        (cut("1g.10gb", "3g.40gb"), "n0 has 1x 3g.40gb, 1x 1g.10gb"),
        (cut("7g.80gb"), "n0 has 1x 7g.80gb"),
        (cut(), "n0 has no slices"),
        (cut(mig=False), "n0 has GPUs that are not cut"),
        (cut(mig=None), "n0 has GPUs without MIG"),
    ],
)
def test_a_node_must_offer_the_declared_slices(there: dict[str, Any], said: str) -> None:
    found = find_unlike_nodes(Settings({**SRUN, **SLICED}), seen(there))
    assert (found is None) == (said == "")
    if found is not None:
        assert found.message == f"the system declares 1x 3g.40gb, 2x 1g.10gb of MIG; node {said}"
        assert "reconcile mig create" in found.fix


def test_slices_of_this_machine_need_a_probe() -> None:
    declared = Settings(SLICED)
    assert needs_probe(declared)
    found = find_unlike_nodes(declared, seen(cut("1g.10gb")))
    assert found is not None
    assert found.message.endswith("; this machine has 1x 1g.10gb")


def test_what_was_seen_is_kept_by_launcher(tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    assert read_probed_nodes(paths) == {}
    here, there = name_nodes(Settings()), name_nodes(Settings(SRUN))
    kept = {there: seen(node()), here: NodeFacts(problem="nobody answers", fix="ask again")}
    write_probed_nodes(paths, kept)
    assert read_probed_nodes(paths) == kept
    assert there != name_nodes(Settings({**SRUN, "system.python": "python3.12"})) != here


def test_nodes_that_nobody_has_looked_at_are_believed_and_their_versions_unknown() -> None:
    systems = {"far": SystemSettings({**SRUN, "hardware.accelerator": "H200"}), "here": SystemSettings()}
    assert find_unlike_systems(systems, {}) == {}
    assert list_installed_for(systems, {}, {"tensorrt": "9"}) == {"far": None, "here": {"tensorrt": "9"}}
    reached = {name_nodes(Settings(SRUN)): seen(node())}
    found = list_installed_for(systems, reached, {})
    assert found["far"] == {"tensorrt": "10.1", "mlcommons-loadgen": "5.1"}


def test_nodes_out_of_reach_are_an_obstacle() -> None:
    systems = {"far": SystemSettings(SRUN)}
    found = find_unlike_systems(
        systems, {name_nodes(Settings(SRUN)): NodeFacts(problem="no such partition", fix="mend it")}
    )
    assert (found["far"].message, found["far"].fix) == ("no such partition", "mend it")
