"""`reconcile rehearse`: generated data, a spec of every scenario, and a pass that ends in sync and cannot be packed."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from ruamel.yaml import YAML

from harness.contract import BENCHMARKS, Progress
from reconciler.cli.rehearse import command
from reconciler.desired.checks import check_reading
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.loadgen.early_stopping import compute_least_queries
from reconciler.observed.installed_backends import PROJECT
from reconciler.rehearse import rehearsal, rehearsal_spec
from reconciler.rehearse.rehearsal_spec import (
    Generated,
    Rehearsed,
    choose_round,
    find_rehearsed,
    generate,
    list_scenarios,
)
from reconciler.rules.benchmark_facts import load_benchmark_facts
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.files import Source
from reconciler.spec.loading import read_texts
from reconciler.spec.proposal import Proposal
from tests.unit.cli.conftest import Reconcile
from tests.unit.spec.writing import load_texts

yaml = YAML(typ="safe")
RESNET = load_benchmark_facts()["resnet50"]
REHEARSALS = {code: found.rehearsal for code, found in load_benchmark_facts().items() if found.rehearsal is not None}


def quiet(_code: str, _progress: Progress) -> None:
    return


def render(*asked: Rehearsed, round_name: str = "v6.1", division: str = "closed", **more: Any) -> str:
    """``more``: a category, or what is proposed of the machine."""
    made = {
        item.facts.code: Generated(
            name="any", code="any", data="generated/data", model="generated/m", samples=4, made=True
        )
        for item in asked
    }
    more = {"machine": Proposal({}, {}, ()), **more}
    return rehearsal_spec.render_rehearsal_spec(
        round_name=round_name, division=division, benchmarks=list(asked), generated=made, **more
    )


@pytest.fixture
def libraries() -> None:
    for name in ("cv2", "onnx", "onnxruntime", "mlperf_loadgen"):
        pytest.importorskip(name)


def test_what_has_code_that_generates_says_how_it_is_rehearsed() -> None:
    assert {code for code, known in BENCHMARKS.items() if known.rehearsed} == REHEARSALS.keys()


@pytest.mark.parametrize("code", sorted(REHEARSALS))
def test_a_rehearsed_scenario_has_queries_enough_for_its_percentile(code: str) -> None:
    """LoadGen calls fewer INVALID however fast they are answered."""
    percentiles = {"SingleStream": 90, "MultiStream": 99, "Server": 99, "Interactive": 99}
    for scenario, declared in REHEARSALS[code].scenarios.items():
        if scenario in percentiles:
            over = scenario.endswith("Stream")  # these discard the slowest, and report the next
            least = compute_least_queries(int(over), Decimal(percentiles[scenario]))
            assert declared["min_query_count"] >= least, (code, scenario)


@pytest.mark.parametrize("round_name", ["v4.1", "v5.1", "v6.1"])
@pytest.mark.parametrize("division", ["closed", "open"])
def test_the_spec_rehearses_every_scenario_of_the_round(tmp_path: Path, round_name: str, division: str) -> None:
    text = render(Rehearsed(name="resnet50", facts=RESNET), round_name=round_name, division=division)
    declared = load_texts(tmp_path, main=text)
    assert declared.rehearsal.value is True
    found = {(cell.cell.division, cell.cell.benchmark, cell.cell.scenario) for cell in declared.cells}
    scenarios = ("SingleStream", "MultiStream", "Server", "Offline")
    assert found == {(division, "resnet", scenario) for scenario in scenarios}


@pytest.mark.parametrize("category", ["datacenter", "edge", rehearsal_spec.CATEGORY])
@pytest.mark.parametrize("round_name", ["v6.1", "v5.1"])
def test_every_category_gives_a_spec_that_the_round_takes(tmp_path: Path, round_name: str, category: str) -> None:
    ruleset = load_ruleset(round_name)
    rehearsed = [
        Rehearsed(name=name, facts=facts)
        for facts in load_benchmark_facts().values()
        for name in facts.names
        if facts.rehearsal is not None and list_scenarios(ruleset, facts.find_official_name(name))
    ]
    entries = {item.entry: item for item in rehearsed}.values()
    text = render(*entries, round_name=round_name, category=category, machine=Proposal({"count": 0}, {}, ()))
    declared, _ = check_reading(read_texts([Source("rehearsal.yaml", text, "")], tmp_path, {}), load_ruleset)
    assert {cell.cell.benchmark for cell in declared.cells} == {item.entry for item in rehearsed}


def test_the_round_is_the_newest_that_has_all() -> None:
    assert choose_round([Rehearsed(name="resnet", facts=RESNET)]) == "v6.1"
    assert list_scenarios(load_ruleset("v6.1"), "nothing") == ()


def test_a_benchmark_of_no_carried_round_is_rehearsed_in_open_with_its_tests_by_name(tmp_path: Path) -> None:
    gone = replace(RESNET, code="photos", names={"photos": "ssd-large"})
    both = [Rehearsed(name="resnet", facts=RESNET), Rehearsed(name="photos", facts=gone)]
    assert choose_round(both) == "v6.1"
    declared = yaml.load(render(*both))["spec"]
    assert {name: list(*systems.values()) for name, systems in declared["divisions"].items()} == {
        "closed": ["resnet"],
        "open": ["ssd-large"],
    }
    assert list(declared["benchmarks"]["ssd-large"]["compliance"]) == ["TEST01"]


def test_a_benchmark_with_a_test_that_no_rehearsal_passes_is_rehearsed_in_open_with_the_others() -> None:
    facts = load_benchmark_facts()["gpt_oss_120b"]
    declared = yaml.load(render(Rehearsed(name="gpt-oss-120b", facts=facts)))["spec"]
    assert list(declared["divisions"]) == ["open"]
    ((test, said),) = declared["benchmarks"]["gpt-oss-120b"]["compliance"].items()
    assert test == "TEST07"
    assert said["dataset"] == {"path": "generated/data/acc/acc_eval_compliance_gpqa.pkl"}


def test_the_framework_of_a_system_is_that_of_its_backends() -> None:
    facts = list(load_benchmark_facts().values())
    asked = [find_rehearsed(name, facts) for name in ("resnet50", "gptj", "bert-99")]
    text = render(*asked, round_name="v4.1", machine=Proposal({}, {"framework": "none of these"}, ()))
    (system,) = yaml.load(text)["spec"]["systems"].values()
    assert system["description"]["framework"] == "ONNX Runtime, OpenVINO GenAI"


@pytest.mark.parametrize("name", ["resnet", "wan-2.2"])
def test_a_benchmark_of_one_category_alone_is_rehearsed_on_a_system_of_it(tmp_path: Path, name: str) -> None:
    facts = list(load_benchmark_facts().values())
    asked = list({item: find_rehearsed(item, facts) for item in ("wan-2.2", name)}.values())
    text = render(*asked)
    assert load_texts(tmp_path, main=text).cells
    declared = yaml.load(text)["spec"]
    found = {system: said["category"] for system, said in declared["systems"].items()}
    both = {"this-machine": "datacenter,edge", "this-machine-datacenter": "datacenter"}
    assert found == (both if name == "resnet" else {"this-machine": "datacenter"})
    assert list(declared["divisions"]["closed"][list(found)[-1]]) == ["wan-2.2-t2v-a14b"]


def test_a_server_of_a_rehearsal_is_started_by_the_interpreter_that_has_this_project(tmp_path: Path) -> None:
    text = render(Rehearsed(name="qwen3-vl", facts=load_benchmark_facts()["qwen3_vl"]))
    (cell, *others) = load_texts(tmp_path, main=text).cells
    assert {other.cell.scenario for other in (cell, *others)} == {"Offline", "Server", "Interactive"}
    service = yaml.load(text)["spec"]["benchmarks"]["qwen3-vl-235b-a22b"]["harness"]["service"]
    assert service["command"][0] == sys.executable
    assert service["command"][-2:] == ["{model}", "{port}"]  # left for the pass


def test_an_unknown_benchmark_gets_the_nearest() -> None:
    with pytest.raises(ReconcilerError) as caught:
        find_rehearsed("resnet51", [RESNET])
    assert "did you mean resnet50" in caught.value.fix


@pytest.mark.usefixtures("libraries")
def test_data_is_generated_once_and_again_for_another_seed(tmp_path: Path) -> None:
    first = generate(tmp_path, RESNET, size="small", seed=1, samples=4, moved=quiet)
    assert first.made
    assert first.name in RESNET.names, "a name that a spec takes"
    labels = (tmp_path / first.data / "val_map.txt").read_text()
    assert len(labels.splitlines()) == 4
    assert not generate(tmp_path, RESNET, size="small", seed=1, samples=4, moved=quiet).made
    other = generate(tmp_path, RESNET, size="small", seed=2, samples=4, moved=quiet)
    assert other.made
    assert (tmp_path / other.data / "val_map.txt").read_text() != labels


@pytest.mark.usefixtures("libraries")
def test_a_rehearsal_is_green_in_sync_and_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of fewer queries than a rehearsal has."""
    assert RESNET.rehearsal is not None
    scenarios = {"SingleStream": {"min_query_count": 100}, "Offline": {"target_qps": 100, "min_query_count": 64}}
    few = replace(RESNET, rehearsal=replace(RESNET.rehearsal, scenarios=scenarios))
    monkeypatch.setattr(rehearsal, "load_benchmark_facts", lambda: {"resnet50": few})
    monkeypatch.setattr(rehearsal_spec, "list_scenarios", lambda *_: tuple(scenarios))
    folder = tmp_path / "rehearsal"
    asked = ["resnet50", "--division", "open", "--samples", "8", "--output", str(folder), "--json", "--busy"]
    first = run(asked)
    assert first["pass"]["in_sync"], first["pass"]
    assert {cell["ready"] for cell in first["pass"]["cells"]} == {True}
    assert {cell["accuracy"]["value"] for cell in first["pass"]["cells"]} == {100.0}
    assert {refused["reason"] for refused in first["refused"]} >= {"it is a rehearsal"}
    assert "run.duration" in first["expected_findings"]
    again = run(asked)
    assert again["pass"]["outcomes"] == []
    assert [(item["name"], item["made"]) for item in again["generated"]] == [(next(iter(RESNET.names)), False)]
    left = subprocess.run(["git", "-C", folder, "status", "--porcelain"], capture_output=True, text=True, check=True)
    assert left.stdout == ""


@pytest.mark.parametrize(
    ("name", "there", "said", "extras"),
    [
        ("resnet50", {}, "resnet50 (opencv-python-headless and onnxruntime)", "resnet50,cpu"),
        ("bert-99", {"onnxruntime": "1.20"}, "bert (tokenizers)", "bert"),
        ("rnnt", {"soundfile": "1"}, "rnnt (onnxruntime)", "cpu"),
    ],
)
def test_packages_that_a_named_benchmark_lacks_are_reported_at_once_with_all_that_brings_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, there: dict[str, str], said: str, extras: str
) -> None:
    monkeypatch.setattr(rehearsal, "list_installed", lambda: {PROJECT: "1", **there})
    reported = CliRunner().invoke(command, [name, "--output", str(tmp_path / "rehearsal")], standalone_mode=False)
    assert isinstance(reported.exception, ReconcilerError)
    assert reported.exception.message.endswith(f": {said}")
    assert f"mlperf-reconciler[{extras}]'" in reported.exception.fix
    assert not (tmp_path / "rehearsal").exists()


def test_no_sample_at_all_is_not_taken_for_the_usual_number(tmp_path: Path) -> None:
    asked = ["resnet50", "--samples", "0", "--output", str(tmp_path / "rehearsal")]
    reported = CliRunner().invoke(command, asked, standalone_mode=False)
    assert "0 is not in the range x>=1" in str(reported.exception)
    assert not (tmp_path / "rehearsal").exists()


def run(arguments: list[str]) -> dict[str, Any]:
    reported = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert reported.exception is None, reported.output
    assert reported.return_value == IN_SYNC, reported.output
    document: dict[str, Any] = json.loads(reported.stdout)
    return document


def test_a_benchmark_whose_name_went_to_another_is_rehearsed_next_to_it_in_open(tmp_path: Path) -> None:
    facts = list(load_benchmark_facts().values())
    both = [find_rehearsed(name, facts) for name in ("3d-unet-99", "3d-unet-brats")]
    assert [item.official for item in both] == ["3d-unet-99", "3d-unet-99"]
    text = render(*both)
    cells = yaml.load(text)["spec"]["divisions"]
    assert {name: list(cells[name]["this-machine"]) for name in cells} == {
        "closed": ["3d-unet-99"],
        "open": ["3d-unet-brats"],
    }
    declared = load_texts(tmp_path, s=text)
    codes = {cell.cell.benchmark: cell.settings["benchmark.code"].value for cell in declared.cells}
    assert codes == {"3d-unet-99": "unet3d", "3d-unet-brats": "unet3d_brats"}


_CPU = {"mlperf-reconciler": "0.1.0", "onnxruntime": "1.0", "opencv-python": "4.0", "tokenizers": "0.20"}


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Codes of the benchmarks that would be rehearsed."""
    found: list[str] = []

    def stop(benchmarks: list[Rehearsed]) -> str:
        found.extend(item.facts.code for item in benchmarks)
        raise ReconcilerError("far enough")

    monkeypatch.setattr(rehearsal, "choose_round", stop)
    return found


def test_what_lacks_packages_is_left_out_and_named(
    chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    monkeypatch.setattr(rehearsal, "list_installed", lambda: _CPU)
    code, out, _ = reconcile("rehearse", "--output", str(tmp_path))
    assert code == 1
    assert {"resnet50", "bert"} <= set(chosen)
    assert {"rgat", "unet3d", "llama3_1_8b"}.isdisjoint(chosen)
    assert all(BENCHMARKS[code].rehearsed for code in chosen)
    assert "3d-unet (nibabel and scipy)" in out
    assert "pip install 'mlperf-reconciler[" in out


def test_what_is_named_is_not_left_out(
    chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    monkeypatch.setattr(rehearsal, "list_installed", lambda: _CPU)
    reconcile.refuse("rehearse", "resnet50", "--output", str(tmp_path))
    assert chosen == ["resnet50"]
    err = reconcile.refuse("rehearse", "resnet50,rgat", "--output", str(tmp_path))
    assert "packages are missing for the rehearsal: rgat (torch)" in err
    assert chosen == ["resnet50"]  # nothing is generated of either


def test_a_machine_with_none_of_them_learns_what_to_install(
    chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    monkeypatch.setattr(rehearsal, "list_installed", lambda: {"mlperf-reconciler": "0.1.0"})
    assert "no benchmark can be rehearsed here" in reconcile.refuse("rehearse", "--output", str(tmp_path))
    assert not chosen
