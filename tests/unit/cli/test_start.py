"""The beginning of a submission: `init` with its benchmarks, `explain`, `fmt`, `doctor`."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from reconciler.cli.command_table import COMMANDS, GROUPS
from reconciler.loadgen.settings import RELEASES
from reconciler.observed.installed_backends import list_installed
from reconciler.observed.loadgen_library import CONFS, UNAVAILABLE, find_loadgen_library, read_seeds
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.spec.adapters import list_adapters
from reconciler.spec.families import find_chip, find_family, find_starting_value
from reconciler.spec.loading import load
from reconciler.spec.proposal import Proposal
from reconciler.spec.starter import NOTHING_READ
from tests.unit.cli.conftest import Reconcile, commit, edit
from tests.unit.spec.writing import OWN, VALID

OTHER_SEEDS = "does not carry the seeds of round"
WANTED = ("--round", "v6.1", "--benchmark", "3d-unet-99,llama3.1-8b", "--benchmark", "whisper", "--system", "h200x8")


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile) -> tuple[Path, str]:
    root = tmp_path / "acme"
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.delenv("MLPERF_SCRATCH_PATH", raising=False)
    code, out, err = reconcile("init", *WANTED)
    assert (code, err) == (0, "")
    return root, out


def test_init_writes_required_cells_with_sources_of_values(begun: tuple[Path, str], reconcile: Reconcile) -> None:
    root, out = begun
    text = (root / "specs/acme.yaml").read_text()
    assert "hardware:" in text
    assert "accelerator: NVIDIA H200" in text
    found = reconcile.report("validate", ends=2)
    assert (found["valid"], found["missing_cells"], found["cells"]) == (True, [], 4)
    for line in text.splitlines():
        if "to begin with:" in line:
            value = line.partition("target_qps: ")[2].partition("}")[0]
            assert f"target_qps {value}: " in out, "nothing is taken silently"
            assert line.rpartition(", ")[2] in out
    assert text.count("to begin with:") == 4
    assert "description of h200x8 has no" in reconcile("validate")[1]
    named = "documents: {calibration: documents/calibration.md}" in text
    assert (root / "documents/calibration.md").is_file() is named


CONFIGURATION = """\
EXPORTS = {C.WorkloadSetting(C.HarnessType.Custom, C.AccuracyTarget(0.99), C.PowerSetting.MaxP): {
    loadgen_fields.server_target_qps: 812,
    loadgen_fields.min_duration: 2400000, loadgen_fields.min_query_count: 5 * 2700,
}}
"""


CLASS = """\
@ConfigRegistry.register(HarnessType.LWIS, AccuracyTarget.k_99, PowerSetting.MaxP)
class H100_SXM_80GBx4(ServerGPUBaseConfig):
    system = KnownSystem.H100_SXM_80GBx4
    server_target_qps = 90
"""


def test_init_writes_the_spec_of_a_published_harness(tmp_path: Path, reconcile: Reconcile) -> None:
    configuration = tmp_path / "theirs/configs/B200-SXM-180GBx8/Server/llama3_1-8b.py"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(CONFIGURATION)
    small = CONFIGURATION.replace("server_target", "offline_expected").replace("5 *", "4 *")
    (tmp_path / "theirs/configs/B200-SXM-180GBx8/Offline").mkdir()
    (tmp_path / "theirs/configs/B200-SXM-180GBx8/Offline/llama3_1-8b.py").write_text(small)
    own = ("--round", "v5.1", "--system", "B200-SXM-180GBx8_TRT", "--benchmark", "llama3.1-8b")
    root = tmp_path / "acme"
    reconcile("init", str(root), "--harness", "nvidia-v5.1", "--code", str(tmp_path / "theirs"), *own)
    declared = load([root / "specs"], root, {})
    targets = {cell.cell.scenario: cell.settings["target_qps"].value for cell in declared.cells}
    assert targets["Server"] == "812"
    assert {cell.settings["min_duration"].value for cell in declared.cells} == {2_400_000}
    # The round requires 13368 samples in Offline.
    counts = {cell.cell.scenario: cell.settings.get("min_query_count") for cell in declared.cells}
    assert (counts["Offline"], counts["Server"] and counts["Server"].value) == (None, 13_500)
    assert all(cell.settings["harness.adapter"].value == "nvidia-v5.1" for cell in declared.cells)
    assert "configs/B200-SXM-180GBx8/Server/llama3_1-8b.py:2" in (root / "specs/acme.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--round", "v5.1", "--system", "B200-SXM-180GBx8_TRT"), ""),
        (("--round", "v6.0", "--system", "B200-SXM-180GBx8_TRT"), "nvidia-v5.1 is for the code of round v5.1"),
        (("--round", "v5.1"), "the code has settings of B200-SXM-180GBx8, GB200x4; name one with --system"),
        (("--round", "v5.1", "--system", "B200-SXM-180GBx4_TRT"), "the closest of its names: B200-SXM-180GBx8"),
        (
            ("--round", "v5.1", "--system", "B200-SXM-180GBx8_TRT", "--benchmark", "whisper,llama2-70b-99.9"),
            "no settings of B200-SXM-180GBx8_TRT for whisper (Offline), llama2-70b-99.9 (Offline, Server).\n",
        ),
        (("--round", "v5.1", "--system", "B200-SXM-180GBx8_TRT_MaxQ"), "no published result of B200-SXM-180GBx8_TRT_M"),
    ],
)
def test_init_warns_of_a_system_or_round_that_the_code_is_not_for(
    words: tuple[str, ...], says: str, tmp_path: Path, reconcile: Reconcile
) -> None:
    """Given a whole checkout, it takes the folder of the code in it."""
    folder = tmp_path / "theirs/closed/NVIDIA"
    for system, scenario in itertools.product(("B200-SXM-180GBx8", "GB200x4"), ("Server", "Offline")):
        configuration = folder / f"configs/{system}/{scenario}/llama3_1-8b.py"
        configuration.parent.mkdir(parents=True)
        configuration.write_text(
            CONFIGURATION if scenario == "Server" else CONFIGURATION.replace("server_target", "offline_expected")
        )
    for path in (folder / "Makefile", folder / "code/main.py"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    start = ("init", str(tmp_path / "acme"), "--harness", "nvidia-v5.1", "--code", str(tmp_path / "theirs"))
    code, out, err = reconcile(*start, "--benchmark", "llama3.1-8b", *words)
    assert (code, err, says in out, "Warning:" in out) == (0, "", True, bool(says))
    assert f"Its code: {folder}.\n" in out
    text = (tmp_path / "acme/specs/acme.yaml").read_text()
    shown = (
        "\n  llama3.1-8b Server target_qps 812: server_target_qps 812; min_query_count 13500 in line 3, configs/B200"
        in out
    )
    assert (f"code: {folder}" in text, shown) == (True, "B200-SXM-180GBx8_TRT" in words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("amd-v5.1", "mi300x8", "llama2-70b-99"), "target_qps 83.5"),
        (
            ("amd-v5.1", "mi300x4", "llama2-70b-99"),
            "no settings of mi300x4; the closest of its names: mi300x, with 8 acc",
        ),
        (("redhat-vllm", "H100-NVL-94GBx3", "llama3.1-8b"), "no published result of NVIDIA H100 NVL with these"),
        (("intel-v5.1", "1-node-2S-GNR_128C", "llama3.1-8b,whisper"), "llama3_1-8b/pytorch-cpu, "),
        (("intel-v5.1", "node", "llama3.1-8b"), "pytorch-cpu (for systems without accelerators), {code}/closed/Intel"),
        (("intel-v5.1", "xeon", "llama3.1-8b"), "llama3_1-8b/pytorch-cpu.\n"),
        (("intel-v5.1", "mi300x8", "llama3.1-8b"), "llama3_1-8b/pytorch-xpu.\n"),
        (
            ("intel-v5.1", "node", "llama2-70b-99"),
            "error: {code} has no folder closed/Intel/code/llama2-70b-99/pytorch-xpu",
        ),
        (("nvidia-v4.1", "node", "gptj-99"), "closed/NVIDIA/configs/gptj/Server/__init__.py:2:"),
        (("nvidia-v4.1", "H100-SXM-80GBx4_TRT", "gptj-99,resnet"), "resnet Server target_qps 90: server_target_qps 90"),
        (("nvidia-v5.1", "B200x8_TRT", "llama3.1-8b"), "the code of round v6.0 ({code}/closed/NVIDIA/VERSION), the"),
        (
            ("nvidia-v5.1", "B200x8_TRT", "llama3.1-8b"),
            "closed/NVIDIA has no Makefile, code/main.py, configs/*/Offline/l",
        ),
        (("amd-v6.0", "mi355x8", "gpt-oss-120b"), "closed/AMD/src has no file gpt-oss-120b/user_*.conf: no rates"),
        (("nvidia-v6.0", "XE9780_x8_TRT", "llama3.1-8b"), "Its code: {code}/closed/Dell_6/src.\n"),
        (("nvidia-v5.1", "XE9680L_B200x8_TRT", "whisper,llama3.1-8b"), "Its code: {code}/closed/Dell.\n"),
        (("nvidia-v5.1", "B200x8_TRT", "whisper,llama3.1-8b"), "Its code: {code}/closed/NVIDIA.\n"),
    ],
)
def test_init_finds_the_folder_and_settings_of_each_benchmark(
    words: tuple[str, str, str], says: str, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.reconcile.new_repository.propose_this_machine", lambda: NOTHING_READ)
    texts = {
        "closed/AMD/code/llama2-70b-99/user_mi300x.conf": "llama2-70b.Server.target_qps = 83.5\n",
        "closed/AMD/code/llama2-70b-99/user_mi300x_mn.conf": "llama2-70b.Server.target_qps = 835\n",
        "closed/RedHat/code/llama3.1-8b/h100_user.conf": "*.Offline.target_qps = 43.64\n",
        "closed/Intel/code/llama3_1-8b/pytorch-cpu/systems/user.conf.1-node-2S-GNR_128C": "",
        "closed/Intel/code/llama3_1-8b/pytorch-xpu/main.py": "",
        "closed/Intel/code/whisper/pytorch-cpu/run.py": "",
        "closed/NVIDIA/configs/gptj/Server/__init__.py": "one = 1\n  two = 2\n",
        "closed/NVIDIA/configs/resnet50/Server/__init__.py": CLASS,
        "closed/NVIDIA/VERSION": "v6.0\n",
        "closed/AMD/src/main.py": "",
        "closed/Dell_6/src/Makefile": "",
        "closed/Dell_6/src/code/main.py": "",
        "closed/Dell_6/configs/XE9780_x8/Server/llama3_1-8b.py": CONFIGURATION,
        "closed/Dell/Makefile": "",
        "closed/Dell/code/main.py": "",
        "closed/Dell/configs/XE9680L_B200x8/Server/llama3_1-8b.py": CONFIGURATION,
    }
    theirs = tmp_path / "theirs"
    for path, text in texts.items():
        (theirs / path).parent.mkdir(parents=True, exist_ok=True)
        (theirs / path).write_text(text)
    adapter, system, benchmarks = words
    start = ("init", str(tmp_path / "acme"), "--harness", adapter, "--code", str(theirs), "--benchmark", benchmarks)
    named = ("--round", ROUNDS.get(adapter, "v5.1"), "--system", system)
    code, out, err = reconcile(*start, *named)
    assert says.format(code=theirs) in out + err
    refused = words[1] == "node" and adapter == "intel-v5.1"
    assert (code, bool(err)) == ((1, True) if refused else (0, False))


def test_init_takes_the_folder_that_is_the_code_itself(tmp_path: Path, reconcile: Reconcile) -> None:
    own = tmp_path / "ours"
    for path in (own / "Makefile", own / "code/main.py", own / "older/Makefile", own / "older/code/main.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    start = ("init", str(tmp_path / "acme"), "--harness", "nvidia-v5.1", "--code", str(own))
    assert f"Its code: {own}.\n" in reconcile.succeed(*start, "--round", "v5.1")


def test_init_takes_the_benchmarks_whose_code_the_folder_is(tmp_path: Path, reconcile: Reconcile) -> None:
    own = tmp_path / "closed/AMD/code/llama2-70b-99.9"
    (own / "harness_llm/models/llama2-70b").mkdir(parents=True)
    (own / "main.py").write_text("")
    start = ("init", str(tmp_path / "acme"), "--harness", "amd-v5.1", "--code", str(own))
    assert "specs/acme.yaml: 1 benchmark, 2 req" in reconcile.succeed(*start, "--round", "v5.1", "--system", "mi300x8")


def test_init_says_that_the_code_has_no_settings(tmp_path: Path, reconcile: Reconcile) -> None:
    (tmp_path / "theirs").mkdir()
    start = ("init", str(tmp_path / "acme"), "--harness", "nvidia-v5.1", "--code", str(tmp_path / "theirs"))
    assert f"Warning: {tmp_path / 'theirs'} has no file configs/" in reconcile.succeed(*start, "--round", "v5.1")


@pytest.mark.parametrize(("words", "adapter"), [(("--harness", "ours"), "ours"), ((), "")])
def test_init_takes_an_adapter_that_the_folder_has(
    words: tuple[str, ...], adapter: str, tmp_path: Path, reconcile: Reconcile
) -> None:
    (tmp_path / "acme/specs").mkdir(parents=True)
    own = tmp_path / "acme/specs/adapter.yaml"
    own.write_text(OWN)
    reconcile.succeed("init", str(tmp_path / "acme"), *words)
    assert own.read_text() == OWN
    assert (f"adapter: {adapter}" in (tmp_path / "acme/specs/acme.yaml").read_text()) is bool(adapter)
    assert reconcile("-C", str(tmp_path / "acme"), "validate")[2] == ""


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("adapter.yaml", OWN.replace("words:", "wrds:"), "specs/adapter.yaml:8:19"),
        ("adapter.yaml", OWN.replace("name: ours", "name: theirs"), "write one of"),
        ("acme.yaml", OWN, "--name NAME"),
        ("spec.yaml", VALID, "has specs/spec.yaml already"),
    ],
)
def test_init_names_what_prevents_the_use_of_an_adapter(
    file: str, text: str, says: str, tmp_path: Path, reconcile: Reconcile
) -> None:
    (tmp_path / "acme/specs").mkdir(parents=True)
    (tmp_path / "acme/specs" / file).write_text(text)
    harness = ("--harness", "nvidia-v5.1" if file == "spec.yaml" else "ours")
    assert says in reconcile.refuse("init", str(tmp_path / "acme"), *harness)
    assert [path.name for path in (tmp_path / "acme").glob("**/*.*")] == [file]


def test_init_refuses_a_second_system(tmp_path: Path, reconcile: Reconcile) -> None:
    words = ("--benchmark", "resnet", "--system", "h200x8", "--system", "b200x8")
    assert "one --system" in reconcile("init", str(tmp_path / "acme"), *words)[2]
    assert not (tmp_path / "acme").exists()


def test_a_cell_of_published_values_scales_with_the_node() -> None:
    two, eight = find_family("h200x2"), find_family("2xH200")
    assert two is not None
    assert two == eight
    assert (two.count, two.accelerator) == (2, "NVIDIA H200")
    whole = find_family("H200-SXM")
    assert whole is not None
    few, many = (find_starting_value(family, "llama3.1-8b", "Offline") for family in (two, whole))
    assert few is not None
    assert many is not None
    assert float(many.value) == 4 * float(few.value)
    assert many.source.startswith("v5.1 closed/")
    assert find_family("this-machine") is None
    assert find_starting_value(whole, "resnet", "MultiStream") is None


@pytest.mark.parametrize(
    ("system", "accelerator", "count"),
    [
        ("A30x8", "NVIDIA A30", 8),
        ("8xA30", "NVIDIA A30", 8),
        ("a2x2", "NVIDIA A2", 2),
        ("A100-SXM-80GBx4", "NVIDIA A100", 4),
        ("T4x20", "Tesla T4", 20),
        ("titan-rtx", "TITAN RTX", 1),
        ("XavierNX", "NVIDIA Jetson Xavier NX", 1),
        ("AGX_Xavier", "NVIDIA Jetson AGX Xavier", 1),
        ("H200-SXM-141GBx1_TRT", "NVIDIA H200", 1),
        ("B200-SXM-180GBx4_TRT", "NVIDIA B200", 4),
        ("H200x4_TRT", "NVIDIA H200", 4),
        ("L40Sx2_TRT_MaxQ", "NVIDIA L40S", 2),
        ("H200x2_MaxQ", "NVIDIA H200", 2),
        ("R770_L40S_PCIE_45GBx2_TRT", "NVIDIA L40S", 2),
        ("R7715-H100-NVL-94GBx3_TRT", "NVIDIA H100 NVL", 3),
        ("GB200-NVL72_GB200-186GB_aarch64x72_TRT", "NVIDIA GB200", 72),
        ("GB200-NVL72_GB200-186GB_aarch64x4", "NVIDIA GB200", 4),
        ("SR-680-H200x4_TRT", "NVIDIA H200", 4),
        ("8xH200_2xEPYC-9655", "NVIDIA H200", 8),
        ("IBM_Cloud_gx3-48x240x2l40s_vLLM", "NVIDIA L40S", 2),
        ("GB300-NVL72_GB300-288GB_aarch64x72_TRT", "NVIDIA GB300", 72),
        ("mi300x8", "AMD Instinct MI300X", 8),
        ("mi300xx4", "AMD Instinct MI300X", 4),
        ("R760xa_H100NVL_PCIe_94GBx4_TRT", "NVIDIA H100 NVL", 4),
        ("ESC8000_H200_NVLx8_TRT", "NVIDIA H200 NVL", 8),
        ("C245M8_H100_PCIe_80GBx2_TRT", "NVIDIA H100 PCIe", 2),
        ("GB300-NVL8-CoreWeave_TRT", "NVIDIA GB300", 4),
        ("8xMI325x_2xEPYC-9655", "AMD Instinct MI325X", 8),
    ],
)
def test_a_system_is_known_by_the_name_that_guides_give_it(system: str, accelerator: str, count: int) -> None:
    found = find_family(system)
    assert found is not None
    assert (found.accelerator, found.count) == (accelerator, count)


@pytest.mark.parametrize(
    ("system", "count", "nodes"),
    [
        ("GB200-NVL72_GB200-186GB_aarch64x72_TRT", 4, 18),
        ("HGX-H100_H100-SXM-80GBx16_TRT", 8, 2),
        ("16xMI300X_4xXeon_8460Y", 8, 2),
        ("HPE_PROLIANT_DL380A_H200_NVL_141GBX10_TRT", 10, 1),
        ("CDI_L40Sx16_TRT", 16, 1),
    ],
)
def test_a_name_with_more_modules_than_a_node_has_is_of_several_nodes(
    system: str, count: int, nodes: int, tmp_path: Path, reconcile: Reconcile
) -> None:
    """As these systems were described when they were published."""
    reconcile("init", str(tmp_path / "acme"), "--round", "v5.1", "--benchmark", "llama3.1-8b", "--system", system)
    (declared,) = load([tmp_path / "acme/specs"], tmp_path / "acme", {}).systems.values()
    assert declared.settings["hardware.count"].value == count
    assert declared.description["accelerators_per_node"].value == str(count)
    assert declared.description["number_of_nodes"].value == str(nodes)
    assert ("hardware.nodes" in declared.settings) is (nodes > 1)


_HERE = Proposal(
    {"accelerator": "NVIDIA L4", "count": 1},
    {"host_processor_model_name": "a CPU of here", "accelerators_per_node": "1", "accelerator_model_name": "NVIDIA L4"},
    (),
)


@pytest.mark.parametrize(
    ("system", "count", "is_here"),
    [
        ("GB300-NVL72_GB300-288GB_aarch64x72_TRT", "4", False),
        ("mi300x8", "8", False),
        ("GH200-96GB_aarch64x2", "2", False),
        ("8xSomeChip", "8", False),
        ("XR5610_L4x1_TRT", "1", True),
        ("box2", "1", True),
        ("node-2xEPYC-9655", "1", True),
        ("R770_XEON6787Px2", "1", True),
        (None, "1", True),
    ],
)
def test_this_machine_is_not_described_under_the_name_of_another_system(
    system: str | None, count: str, is_here: bool, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.reconcile.new_repository.propose_this_machine", lambda: _HERE)
    words = ("--harness", "nvidia-v5.1", "--round", "v5.1", "--benchmark", "llama3.1-8b")
    code, out, err = reconcile("init", str(tmp_path / "acme"), *words, *(("--system", system) if system else ()))
    assert (code, err) == (0, "")
    text = (tmp_path / "acme/specs/acme.yaml").read_text()
    assert (f'accelerators_per_node: "{count}"' in text, "a CPU of here" in text) == (True, is_here)
    assert ("host_processor_model_name: not declared   # <- fill in" in text) is not is_here
    assert (f"`reconcile detect --system {system} --write`" in out) is not is_here
    assert ("accelerator_model_name: N/A" in text, "count: 0" in text) == (False, False)
    load([tmp_path / "acme/specs"], tmp_path / "acme", {})


def test_a_name_that_only_contains_a_short_one_is_of_this_machine() -> None:
    assert find_family("host4") is None
    assert find_family("GH200-96GB_aarch64x1_TRT") is None


def test_init_leaves_no_blank_where_the_submitter_is_named(tmp_path: Path, reconcile: Reconcile) -> None:
    words = ("--benchmark", "llama3.1-8b", "--system", "h200x8")
    reconcile("init", str(tmp_path / "acme"), *words, "--submitter", "ACME")
    reconcile("init", str(tmp_path / "some"), *words)
    lines = {
        name: next(
            line for line in (tmp_path / name / f"specs/{name}.yaml").read_text().splitlines() if "submitter:" in line
        )
        for name in ("acme", "some")
    }
    assert ("<- fill in" in lines["acme"], "<- fill in" in lines["some"]) == (False, True)


def test_published_rates_belong_to_the_same_chip() -> None:
    found = {"NVIDIA H200": "H200", "NVIDIA H100 80GB HBM3": "H100", "NVIDIA GH200 480GB": None}
    found |= {"NVIDIA H100 PCIe": None, "NVIDIA H200 NVL": None, "": None}
    chips = {name: find_chip(name) for name in found}
    assert {name: chip and chip.name for name, chip in chips.items()} == found


@pytest.mark.parametrize("system", ["h200x8", "xeon"])
def test_init_writes_only_backends_that_can_compute_the_benchmark(
    system: str, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLPERF_SCRATCH_PATH", raising=False)
    names = "rgat,stable-diffusion-xl,llama3.1-405b,llama2-70b-99,dlrm-v2-99,retinanet,whisper"
    root = tmp_path / "new"
    words = ("--round", "v5.1", "--benchmark", names, "--system", system)
    assert reconcile("init", str(root), *words)[0] == 0
    monkeypatch.chdir(root)
    assert reconcile.report("validate", ends=2)["valid"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--benchmark", "llama2-70b-99"), "no benchmark 'llama2-70b-99' any more"),
        (("--benchmark", "resnt"), "did you mean resnet?"),
        (("--benchmark", "resnet"), "has no datacenter resnet"),
        (("--round", "v6.1"), "--benchmark NAME"),
        (("--round", "v9.1", "--benchmark", "resnet"), "v9.1"),
        (("--round", "v5.1", "--harness", "nvidia"), "write nvidia-v5.1 "),
    ],
)
def test_init_refuses_unknown_names(words: tuple[str, ...], says: str, tmp_path: Path, reconcile: Reconcile) -> None:
    assert says in reconcile.refuse("init", str(tmp_path / "new"), *words)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("path", "at"),
    [
        ("spec.benchmarks.llama3.1-8b.engine.backend", "spec.benchmarks.llama3.1-8b.engine.backend"),
        ("spec.divisions.closed.8xH200.dlrm-v2-99.9.Offline", "spec.divisions.closed.8xH200.dlrm-v2-99.9.Offline"),
        ("target_qps", "spec.defaults.target_qps"),
        ("engine.backend", "spec.defaults.engine.backend"),
    ],
)
def test_explain_takes_names_with_dots_and_the_end_of_a_path(path: str, at: str, reconcile: Reconcile) -> None:
    code, out, err = reconcile("explain", path)
    assert (code, out.splitlines()[0].split()[-1], err) == (0, at, "")


@pytest.mark.parametrize("path", ["targt_qps", "spec.divisions.closed.box.llama3.1-8b.Offline.targt_qps"])
def test_explain_names_the_nearest_field(path: str, reconcile: Reconcile) -> None:
    assert "write target_qps" in reconcile.refuse("explain", path)


def test_explain_names_what_may_be_at_the_place(reconcile: Reconcile) -> None:
    assert "SingleStream, MultiStream, Server" in reconcile.refuse("explain", "divisions.open.x.y.Foo")


def test_init_quotes_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile) -> None:
    monkeypatch.chdir(tmp_path)
    assert "cd 'a b'\n" in reconcile.succeed("init", "a b")


def test_explain_follows_names_of_the_users_own_or_none(reconcile: Reconcile) -> None:
    for path in ("spec.benchmarks.engine", "spec.benchmarks.resnet.engine", "spec/benchmarks/resnet/engine"):
        code, out, _ = reconcile("explain", path)
        assert (code, "batch_size" in out, "onnxruntime" not in out) == (0, True, True)
    assert "onnxruntime" in reconcile("explain", "spec.benchmarks.engine.backend")[1]
    cell = reconcile("explain", "spec.divisions.closed.box.resnet.Offline.target_qps")[1]
    assert "queries (samples) per second" in cell
    assert "v6.1" in reconcile("explain", "spec.round")[1]
    assert "write engine" in reconcile.refuse("explain", "spec.benchmarks.resnet.engin")


def test_explain_as_json(reconcile: Reconcile) -> None:
    found = reconcile.report("explain", "publish")
    assert (found["path"], found["type"], found["fields"]) == ("spec.defaults.publish", "choice", {})
    assert {"latest", "median", "best"} <= set(found["choices"])
    named = reconcile.report("explain", "metadata")["fields"]["name"]
    assert (named["type"], named["required"]) == ("text or number", True)


def test_fmt_changes_no_value_and_keeps_comments(declared: Path, reconcile: Reconcile) -> None:
    path = declared / "specs/one.yaml"
    plain = path.read_text()
    path.write_bytes(plain.replace("\n", "  \r\n", 3).replace("spec:", "\n\n\n#of all\nspec:", 1).encode())
    assert reconcile("fmt", "--check")[0] == 2
    found = reconcile.report("fmt", "--check", ends=2)
    assert (found["changed"], found["written"]) == (["specs/one.yaml"], False)
    assert reconcile("fmt")[0] == 0
    assert path.read_text() == plain.replace("spec:", "\n# of all\nspec:", 1)
    assert reconcile("fmt", "--check")[:2] == (0, "Nothing to change.\n")
    path.write_text("a: |\n  kept  \n\n\n  too\n")
    assert reconcile("fmt")[0] == 0
    assert path.read_text() == "a: |\n  kept  \n\n\n  too\n"


def test_doctor_names_what_is_missing(begun: tuple[Path, str], reconcile: Reconcile) -> None:
    root, _ = begun
    checks = reconcile.report("doctor", ends=2)["checks"]
    missing = [check["text"] for check in checks if check["missing"]]
    assert "nothing is committed yet" in missing
    assert any("8 x NVIDIA H200; this machine has" in text for text in missing)
    assert any("description of h200x8 has no" in text for text in missing)
    (marked,) = (check for check in checks if "'# <- fill in'" in check["text"])
    spec = (root / "specs").glob("*.yaml")
    lines = next(spec).read_text().splitlines()
    assert "<- fill in" in lines[int(marked["where"].rpartition(":")[2]) - 1]
    assert marked["text"].startswith(
        f"{sum('# <- fill in' in line for line in lines if not line.startswith('#'))} lines"
    )
    assert all(check["fix"] for check in checks if check["missing"])
    gaps = reconcile.report("validate")["gaps"]
    described = {number for number, line in enumerate(lines, 1) if line.endswith(": not declared   # <- fill in")}
    assert described
    assert described <= {gap["line"] for gap in gaps}, "validate counts each blank of the description, as init does"
    commit(root, "Declare it")
    assert "1 spec committed" in reconcile("doctor")[1]
    edit_spec = root / "specs/acme.yaml"
    edit_spec.write_text(edit_spec.read_text() + "# more\n")
    assert "not committed: specs/acme.yaml" in reconcile("doctor")[1]


def test_doctor_of_what_is_measured_and_committed_is_ready(recorded: Path, reconcile: Reconcile) -> None:
    code, out, _ = reconcile("doctor")
    assert (code, out.splitlines()[-1]) == (0, "Ready."), out
    assert "a rehearsal: it is never submitted" in out
    edit(recorded, "target_qps", "target_qsp")
    code, out, _ = reconcile("doctor")
    assert (code, "specs/one.yaml:24:21: target_qsp is not a setting" in out) == (2, True)


def install_older_loadgen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That of v5.1."""
    old = b"*.*.qsl_rng_seed = 1780908523862526354\n*.*.sample_index_rng_seed = 14771362308971278857\n"
    library = folder / "mlperf_loadgen.so"
    library.write_bytes(b"\x7fELF" + old + b"*.*.schedule_rng_seed = 18209322760996052031\n")
    monkeypatch.setattr("sys.path", [str(folder), *sys.path])
    return library


def test_a_loadgen_of_another_round_is_reported_before_anything_runs(
    begun: tuple[Path, str], reconcile: Reconcile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = install_older_loadgen(tmp_path, monkeypatch)
    assert find_loadgen_library() == library
    assert len(read_seeds(library)) == 3
    out = reconcile("doctor")[1]
    assert (f"{OTHER_SEEDS} v6.1" in out, "v5.1" in out) == (True, True)
    assert "pip install mlcommons-loadgen==6.0.17" in out
    out = reconcile("plan")[1]
    assert "v6.1: its runs would be rejected" in out
    assert "Not committed: specs/acme.yaml" in out
    lines = (begun[0] / "specs/acme.yaml").read_text().splitlines()
    described = sum(line.endswith(": not declared   # <- fill in") for line in lines)
    assert described
    assert f"{described + 3} things that a submission needs are missing" in out, "a blank of the description each"


def test_runs_that_would_be_refused_for_their_seeds_are_not_made(
    declared: Path, reconcile: Reconcile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rehearsal's, too. What another interpreter has is not known here."""
    install_older_loadgen(tmp_path, monkeypatch)
    what = "the installed LoadGen does not have the seeds of round v6.1: its runs would be rejected"

    def list_blocked() -> list[tuple[str, str]]:
        steps = reconcile.report("plan", "--only", "Run")["steps"]
        return [
            (step["blocked"], step["fix"].partition(";")[0]) for step in steps if step["address"].startswith("Run:")
        ]

    assert list_blocked() == [(what, "pip install mlcommons-loadgen==6.0.17")] * 2
    edit(declared, "status: available", "status: available\n      launcher: [env]\n      python: /opt/v6.1/bin/python")
    assert list_blocked() == [("", "")] * 2


def test_a_loadgen_in_pythonpath_is_not_that_of_the_runs(
    begun: tuple[Path, str], reconcile: Reconcile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children get no PYTHONPATH, so that it changes neither the LoadGen nor the packages that they import."""
    usual, installed = find_loadgen_library(), list_installed()
    install_older_loadgen(tmp_path, monkeypatch)
    (tmp_path / "mlcommons_loadgen-5.1.2.dist-info").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert (find_loadgen_library(), list_installed()) == (usual, installed)
    assert "its runs would be rejected" not in reconcile("plan")[1]
    monkeypatch.delenv("PYTHONPATH")
    assert find_loadgen_library() != usual
    assert list_installed()["mlcommons-loadgen"] == "5.1.2"


def test_each_round_has_a_release_or_none_that_can_be_had() -> None:
    assert sorted([*RELEASES, *CONFS, *UNAVAILABLE]) == sorted(list_rounds())


@pytest.mark.parametrize(
    ("round_name", "first"),
    [("v5.0", (5, 0, 14)), ("v6.0", (6, 0, 10))],  # pointpainting; wan-2.2-t2v-a14b and gpt-oss-120b-interactive
)
def test_the_release_of_a_round_has_all_of_its_mlperf_conf(round_name: str, first: tuple[int, int, int]) -> None:
    assert tuple(map(int, RELEASES[round_name].split("."))) >= first


def make_loadgen(folder: Path, release: str, seeds: dict[str, int], name: str = "mlcommons_loadgen") -> Path:
    """A wheel like LoadGen's: the library, of which only the configuration that is built in counts here."""
    information = f"{name}-{release}.dist-info"
    conf = "".join(f"*.*.{seed} = {value}\n" for seed, value in seeds.items())
    path = folder / f"{name}-{release}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("mlperf_loadgen.so", b"\x7fELF" + conf.encode())
        wheel.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n")
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{information}/RECORD", "")
    return path


def test_doctor_installs_the_loadgen_of_a_round_next_to_the_one_that_is_here(
    begun: tuple[Path, str], reconcile: Reconcile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = begun
    spec = root / "specs/acme.yaml"
    spec.write_text(spec.read_text().replace("round: v6.1", "round: v5.1"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)  # of the person who runs the tests
    make_loadgen(tmp_path, RELEASES["v5.1"], load_ruleset("v5.0").seeds())
    code, _, err = reconcile("doctor", "--fix")
    environment = root / ".reconcile/environments/v5.1"
    assert (code, f"{OTHER_SEEDS} v5.1" in err, environment.exists()) == (1, True, False)
    make_loadgen(tmp_path, RELEASES["v5.1"], load_ruleset("v5.1").seeds())
    out = reconcile("doctor", "--fix")[1]
    assert f"LoadGen of round v5.1 is installed in {environment}" in out
    assert f"`python: {environment}/bin/python`" in out
    asked = "import importlib.util as u; print(*(u.find_spec(n).origin for n in ('mlperf_loadgen', 'click')))"
    found = subprocess.run([str(environment / "bin/python"), "-c", asked], capture_output=True, text=True, check=False)
    loadgen, other = found.stdout.split()
    assert Path(loadgen).is_relative_to(environment), "its LoadGen is its own"
    assert not Path(other).is_relative_to(environment), "all else is what is here"


def test_runs_of_a_round_without_loadgen_are_refused_with_the_reason(declared: Path, reconcile: Reconcile) -> None:
    edit(declared, "round: v6.1", "round: v1.0")
    reason = "round v1.0"
    code, out, _ = reconcile("doctor", "--fix")
    assert (code, reason in out) == (2, True)
    assert not (declared / ".reconcile/environments").exists()
    out = " ".join(reconcile("plan")[1].split())
    assert reason in out
    assert "reconcile adopt TREE" in out


def test_every_group_of_the_help_has_commands_that_are_there(reconcile: Reconcile) -> None:
    named = [name for names in GROUPS.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) <= set(COMMANDS)
    out = reconcile("--help")[1]
    assert all(f"{title}:" in out for title in GROUPS)
    assert all(f"\n  {name} " in out for name in COMMANDS)


def test_a_loadgen_that_was_brought_is_installed_with_the_mlperf_conf_of_the_round(
    declared: Path, reconcile: Reconcile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of before v4.1: by its old name, and with nothing built in."""
    edit(declared, "round: v6.1", "round: v4.0")
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)  # of the person who runs the tests
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    out = reconcile("doctor", "--fix")[1]
    assert (f"{OTHER_SEEDS} v4.0" in out, "reconcile doctor --loadgen" in out) == (True, True)
    environment = declared / ".reconcile/environments/v4.0"
    brought = tmp_path / "brought"
    brought.mkdir()
    wheel = make_loadgen(brought, "4.0", {}, "mlperf_loadgen")
    conf = brought / "mlperf.conf"
    for wrong in (None, "*.*.qsl_rng_seed = 1\n"):
        if wrong:
            conf.write_text(wrong)
        code, _, err = reconcile("doctor", "--loadgen", str(wheel))
        assert (code, CONFS["v4.0"] in err, environment.exists()) == (1, True, False)
    conf.write_text("".join(f"*.*.{name} = {seed}\n" for name, seed in load_ruleset("v4.0").seeds().items()))
    monkeypatch.setitem(CONFS, "v4.0", hashlib.sha256(conf.read_bytes()).hexdigest())
    out = reconcile("doctor", "--loadgen", str(wheel))[1]
    assert f"LoadGen of round v4.0 is installed in {environment}" in out
    asked = (
        "from reconciler.observed.installed_backends import list_installed as there; "
        "from harness.machine.facts import find_distribution_version as version; from harness.catalog import LOADGEN; "
        "print(there()[LOADGEN[0]], version(*LOADGEN))"
    )
    found = subprocess.run([str(environment / "bin/python"), "-c", asked], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["4.0", "4.0"], "its own, not the one beneath"


def test_what_is_no_loadgen_is_not_installed(declared: Path, reconcile: Reconcile, tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("")
    code, _, err = reconcile("doctor", "--loadgen", str(tmp_path))
    assert (code, "is not LoadGen" in err, "fix:" in err) == (1, True, True)


ROUNDS = {"nvidia-v4.1": "v4.1", "nvidia-v6.0": "v6.0", "amd-v6.0": "v6.0"}


@pytest.mark.parametrize("adapter", list_adapters())
def test_show_prints_the_commands_of_a_published_harness(
    adapter: str, tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filled in, except what only an attempt knows."""
    for benchmark in list_adapters()[adapter].known.benchmarks:
        folder = tmp_path / "theirs" / list_adapters()[adapter].make_folder_name(benchmark).replace("*", "xpu")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "main.py").write_text("")
    monkeypatch.chdir(tmp_path)
    named = ("--round", ROUNDS.get(adapter, "v5.1"), "--system", "node")
    code, _, err = reconcile("init", "acme", "--harness", adapter, "--code", str(tmp_path / "theirs"), *named)
    assert (code, err) == (0, "")
    monkeypatch.chdir(tmp_path / "acme")
    spec = tmp_path / "acme/specs/acme.yaml"
    spec.write_text(spec.read_text().replace("target_qps: …", "target_qps: 7"))
    for cell in load([spec], tmp_path / "acme", {}).cells:
        out = reconcile("show", str(cell.cell))[1]
        commands = {
            part.splitlines()[0].partition("  ")[0]: part for part in out.split("\n\n")[1:] if "  command  " in part
        }
        assert {"Run accuracy", "Run performance", "Score"} <= set(commands)
        filled = "".join(commands.values())
        assert not re.search(
            r"(?<!\$)\{(scenario|mode|loadgen_mode|test|target_qps|model|dataset|accuracy:|performance:)", filled
        )
    if adapter == "nvidia-v5.1":
        run = next(line for line in commands["Run performance"].splitlines() if line.startswith("  command  "))
        assert run.startswith(
            "  command  env LOG_DIR={run_dir} make run_harness NO_DISPLAY_RESULTS=1 'RUN_ARGS=--benchmarks="
        )
        assert "--test_mode=PerformanceOnly" in run


def test_init_leaves_out_a_scenario_that_the_adapter_does_not_run(tmp_path: Path, reconcile: Reconcile) -> None:
    named = ("--round", "v5.1", "--system", "node", "--benchmark", "llama3.1-8b")
    code, _, err = reconcile(
        "init", str(tmp_path / "acme"), "--harness", "redhat-vllm", "--code", str(tmp_path), *named
    )
    assert code == 0, err
    text = (tmp_path / "acme/specs/acme.yaml").read_text()
    assert "# Server: {}   # required; needs its own harness.command: " in text
    assert [cell.cell.scenario for cell in load([tmp_path / "acme/specs"], tmp_path / "acme", {}).cells] == ["Offline"]


def test_a_harness_brings_its_own_loadgen_and_a_shared_fix_is_printed_once(
    tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    monkeypatch.chdir(tmp_path)
    named = ("--harness", "nvidia-v5.1", "--code", str(tmp_path / "theirs"), "--round", "v5.1", "--system", "node")
    assert reconcile("init", "acme", *named)[0] == 0
    monkeypatch.chdir(tmp_path / "acme")
    monkeypatch.setattr("reconciler.reconcile.readiness.read_seeds", lambda _: load_ruleset("v6.1").seeds())
    out = reconcile("doctor")[1]
    line = next(line for line in out.splitlines() if f"{OTHER_SEEDS} v5.1" in line)
    assert line.split()[0] == "advice"
    assert "nothing if the harness commands bring a LoadGen of round v5.1" in out
    gaps = reconcile("validate")[1]
    assert gaps.count("spec.systems.node.description.") > 2
    assert gaps.count("`reconcile detect --system node --write`") == 1
