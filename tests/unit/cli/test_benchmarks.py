"""`reconcile benchmarks`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from reconciler.cli.rounds import benchmarks_command as command
from reconciler.errors import ReconcilerError
from reconciler.rules.benchmark_facts import find_benchmark_facts
from reconciler.storage.documents import parse_yaml_mapping
from tests.unit.spec.writing import load_texts


def test_the_list_names_each_with_its_rounds() -> None:
    reported = CliRunner().invoke(command, [], standalone_mode=False)
    (row,) = [line for line in reported.output.splitlines() if line.startswith("resnet ")]
    assert "v0.7 to v6.1" in row
    document = json.loads(CliRunner().invoke(command, ["--json"], standalone_mode=False).output)
    assert document["benchmarks"][0]["rounds"]["v4.1"]["datacenter"] == ["Server", "Offline"]


def test_the_list_has_only_rounds_in_which_a_name_means_the_benchmark() -> None:
    lines = CliRunner().invoke(command, [], standalone_mode=False).output.splitlines()
    found = {line.partition("  ")[0]: line.partition("  ")[2].strip() for line in lines}
    assert found["3d-unet-99, 3d-unet-99.9"].startswith("v2.0 to v6.1 ")
    assert found["3d-unet-brats, 3d-unet-brats-99, 3d-unet-brats-99.9"].startswith("v0.7 to v1.1 ")
    (llama,) = [name for name in found if "llama2-70b-99.9" in name]
    assert llama.split(", ")[:2] == ["llama2-70b-99.9", "llama2-70b-99 (v4.0 to v6.0)"]
    page = CliRunner().invoke(command, ["show", "3d-unet-brats", "--json"], standalone_mode=False).output
    assert list(json.loads(page)["rounds"])[-1] == "v1.1"


def test_a_page_says_what_must_be_on_disk_and_where_to_get_it() -> None:
    reported = CliRunner().invoke(command, ["show", "resnet"], standalone_mode=False).output
    for part in ("val_map.txt", "image-net.org", "resnet50_v1.onnx", "input_tensor:0 float32 [3, 224, 224]"):
        assert part in reported


def test_the_line_of_a_page_is_all_that_a_spec_must_say_of_a_benchmark(tmp_path: Path) -> None:
    reported = CliRunner().invoke(command, ["show", "bert"], standalone_mode=False).output
    (line,) = [line.strip().removeprefix("in a spec").strip() for line in reported.splitlines() if "in a spec" in line]
    written = line.replace("backend: …", "backend: onnxruntime").replace("…", "/data")
    spec = (
        "apiVersion: mlperf-reconciler/v1\nkind: Submission\nmetadata: {name: one}\nspec:\n  round: v6.1\n"
        f"  submitter: ACME\n  systems: {{box: {{category: edge, status: available}}}}\n  {written}\n"
        "  divisions: {closed: {box: {bert: {Offline: {target_qps: 10}}}}}\n"
    )
    (cell,) = load_texts(tmp_path, main=spec).cells
    assert cell.settings["benchmark.official"].value == "bert-99"


def test_a_page_names_the_settings_that_a_spec_may_write() -> None:
    reported = CliRunner().invoke(command, ["show", "bert"], standalone_mode=False).output
    assert "settings     dtype (int64, int32), count, unpublished" in reported


def test_a_digest_of_an_archive_is_distinguished_from_that_of_a_file() -> None:
    """No one could find it by hashing what came out of it."""
    reported = CliRunner().invoke(command, ["show", "resnet50"], standalone_mode=False).output
    assert "md5 f963098ea0e785a968ca1eb634003a90 of caffe_ilsvrc12.tar.gz" in reported
    assert "md5 f6a4da60cd5f084d97efc2c1ddb10beb\n" in reported


def test_both_say_what_is_missing_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", str(tmp_path))
    (tmp_path / "data/imagenet").mkdir(parents=True)
    (tmp_path / "data/imagenet/val_map.txt").write_text("a 1")
    (tmp_path / "data/imagenet/ILSVRC2012_val_00000001.JPEG").write_text("image")
    reported = CliRunner().invoke(command, [], standalone_mode=False).output
    assert "2 of 3" in next(line for line in reported.splitlines() if line.startswith("resnet "))
    page = CliRunner().invoke(command, ["show", "resnet50"], standalone_mode=False).output
    assert "1 of 50,000 files exist" in page
    assert "reconcile fetch resnet50" in page
    document = json.loads(CliRunner().invoke(command, ["show", "resnet50", "--json"], standalone_mode=False).output)
    assert {Path(item["path"]).name: item["presence"] for item in document["files"]} == {
        "resnet50_v1.onnx": "missing",
        "val_map.txt": "here, unproved",
        "ILSVRC2012_val_*.JPEG": "incomplete",
    }


@pytest.mark.parametrize("name", ["wan-2.2-t2v-a14b", "stable-diffusion-xl", "deepseek-r1", "mixtral-8x7b"])
def test_the_command_of_a_page_can_be_pasted_into_a_spec(name: str) -> None:
    reported = CliRunner().invoke(command, ["show", name], standalone_mode=False).output
    (line,) = [line for line in reported.splitlines() if line.lstrip().startswith("in a spec  harness:")]
    written = parse_yaml_mapping(line.partition("in a spec")[2].encode()).values
    facts = find_benchmark_facts(name)
    assert facts is not None
    assert tuple(written["harness"]["score"]["command"]) == facts.support.command


@pytest.mark.parametrize(
    ("name", "works"),
    [
        ("llama3.1-8b-interactive", "works in rehearsal, scored here"),
        ("llama3.1-405b-interactive", "works in rehearsal, scored here"),
        ("llama2-70b-interactive-99.9", "works in rehearsal, scored here"),
        ("deepseek-r1-interactive", "works in rehearsal, scored by the official script"),
        ("e2e-rag", "with a harness command, scored by the official script"),
    ],
)
def test_a_name_of_results_is_found_as_well(name: str, works: str) -> None:
    reported = CliRunner().invoke(command, ["show", name], standalone_mode=False).output
    assert works in next(line for line in reported.splitlines() if "what works here" in line)
    assert not name.endswith("-interactive") or "Interactive" in reported.partition("\nrounds\n")[2]


def test_an_unknown_name_gets_the_nearest() -> None:
    reported = CliRunner().invoke(command, ["show", "resnet51"], standalone_mode=False)
    assert isinstance(reported.exception, ReconcilerError)
    assert "did you mean resnet50?" in reported.exception.fix
