"""`reconcile rounds` with its sub-commands, and `reconcile benchmarks`."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.rules.benchmark_facts import find_benchmark_facts
from reconciler.storage.documents import parse_yaml_mapping
from tests.unit.cli.conftest import Reconcile
from tests.unit.spec.writing import load_texts


def test_rounds_lists_them_oldest_first(reconcile: Reconcile) -> None:
    code, out, err = reconcile("rounds")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [
        *("v0.7", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v3.1", "v4.0"),
        *("v4.1", "v5.0", "v5.1", "v6.0", "v6.1"),
    ]
    report = reconcile.report("rounds")
    assert report["report"] == "rounds"
    assert report["rounds"][-1]["benchmarks"][0] == "resnet"


def test_show_a_round(reconcile: Reconcile) -> None:
    out = reconcile.succeed("rounds", "show", "v6.1")
    assert "v6.1: 21 benchmarks, layout v6" in out
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "llama3.1-8b datacenter Offline and (Interactive or Server) TEST06" in rows
    assert "whisper datacenter Offline TEST01" in rows
    assert "edge Offline" in rows, "the other category of the row above it"
    both = [row for row in rows if "datacenter,edge" in row]
    assert len(both) == 2, "resnet and stable-diffusion-xl: Server counts only there"


@pytest.mark.parametrize("name", ["resnet", "resnet50"])
def test_show_a_benchmark_by_its_name_or_an_alias(reconcile: Reconcile, name: str) -> None:
    out = reconcile.succeed("rounds", "show", "v6.1", name)
    lines = [line.split() for line in out.splitlines()]
    assert ["most_target_latency", "15", "ms", "policy,", "checker"] in lines
    assert ["accuracy.acc.least", "75.6954", "policy,", "checker"] in lines
    assert not any(line and line[0].startswith("tests.TEST06") for line in lines), "it needs no such test"


def test_show_as_json(reconcile: Reconcile) -> None:
    report = reconcile.report("rounds", "show", "v6.1", "dlrm-v3")
    value = report["benchmarks"]["dlrm-v3"]["values"]["Server"]["most_target_latency"]
    assert value["value"] == 80_000_000
    assert value["sources"] == ["policy", "mlperf.conf"]
    whole = reconcile.report("rounds", "show", "v6.1")
    assert len(whole["benchmarks"]) == 21
    ignored = whole["benchmarks"]["rgat"]["values"]["all"]["accuracy.acc.least"]["ignored"]
    assert [item["value"] for item in ignored] == [0.721314]
    overruled = whole["benchmarks"]["yolo-99"]["values"]["all"]["accuracy.mAP.least"]["overruled"]
    assert [value for _, value in overruled] == [52.866]


@pytest.mark.parametrize("words", ["rounds v6.1 resnet", "benchmarks resnet50"])
def test_a_name_needs_no_show(words: str, reconcile: Reconcile) -> None:
    group, *names = words.split()
    assert reconcile(group, *names) == reconcile(group, "show", *names)
    assert reconcile(group, *names)[0] == 0


def test_a_wrong_benchmark_gets_names_that_a_spec_takes(reconcile: Reconcile) -> None:
    assert "did you mean llama3.1-8b?" in reconcile("benchmarks", "show", "llama3-8b")[2]
    _, _, err = reconcile("rehearse", "llama3-8b")
    assert "llama3.1-8b" in err
    assert "reconcile benchmarks" in err
    assert err.count(" or ") == 2


@pytest.mark.parametrize(
    ("words", "message", "fix"),
    [
        (("show", "v6.2"), "unknown round 'v6.2'", "did you mean v6.1?"),
        (("show", "v6.1", "resnt"), "round v6.1 has no benchmark 'resnt'", "did you mean resnet?"),
        (("diff", "v6.0", "6.1"), "unknown round '6.1'", "did you mean v6.1?"),
        (("conflicts", "v1"), "unknown round 'v1'", "did you mean v1.1?"),
        (("show", "v7.1"), "unknown round 'v7.1'", "fix: known rounds: v0.7"),
    ],
)
def test_unknown_names_get_hints(reconcile: Reconcile, words: tuple[str, ...], message: str, fix: str) -> None:
    code, out, err = reconcile("rounds", *words)
    assert (code, out) == (1, "")
    assert message in err
    assert fix in err


def test_conflicts_of_the_newest_round_by_default(reconcile: Reconcile) -> None:
    out = reconcile.succeed("rounds", "conflicts")
    assert out == reconcile("rounds", "conflicts", "v6.1")[1]
    lines = out.splitlines()
    place = lines.index("gpt-oss-120b / Interactive / most_tpot_latency")
    assert lines[place + 1].split() == ["counts", "15", "ms", "checker,", "mlperf.conf", "the", "strictest"]
    assert lines[place + 2].split() == ["20", "ms", "policy", "less", "strict"]
    report = reconcile.report("rounds", "conflicts", "v5.1")
    assert report["round"] == "v5.1"
    assert all(statement["because"] for found in report["conflicts"] for statement in found["statements"])


def test_diff_as_a_table_and_as_json(reconcile: Reconcile) -> None:
    out = reconcile.succeed("rounds", "diff", "v6.0", "v6.1")
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "v6.0 → v6.1"
    assert {"+ e2e-rag-qna", "- retinanet"} <= set(lines)
    assert "most_target_latency             nothing → 1.5 s" in lines
    assert "nothing changed" in reconcile("rounds", "diff", "v6.0", "v6.0")[1]
    report = reconcile.report("rounds", "diff", "v6.0", "v6.1")
    assert (report["before"], report["after"]) == ("v6.0", "v6.1")
    (seed,) = (change for change in report["changes"] if change["name"] == "qsl_rng_seed")
    assert (seed["benchmark"], seed["scenario"]) == (None, None)


def test_the_list_names_each_with_its_rounds(reconcile: Reconcile) -> None:
    (row,) = [line for line in reconcile.succeed("benchmarks").splitlines() if line.startswith("resnet ")]
    assert "v0.7 to v6.1" in row
    document = reconcile.report("benchmarks")
    assert document["benchmarks"][0]["rounds"]["v4.1"]["datacenter"] == ["Server", "Offline"]


def test_the_list_has_only_rounds_in_which_a_name_means_the_benchmark(reconcile: Reconcile) -> None:
    lines = reconcile.succeed("benchmarks").splitlines()
    found = {line.partition("  ")[0]: line.partition("  ")[2].strip() for line in lines}
    assert found["3d-unet-99, 3d-unet-99.9"].startswith("v2.0 to v6.1 ")
    assert found["3d-unet-brats, 3d-unet-brats-99, 3d-unet-brats-99.9"].startswith("v0.7 to v1.1 ")
    (llama,) = [name for name in found if "llama2-70b-99.9" in name]
    assert llama.split(", ")[:2] == ["llama2-70b-99.9", "llama2-70b-99 (v4.0 to v6.0)"]
    assert list(reconcile.report("benchmarks", "show", "3d-unet-brats")["rounds"])[-1] == "v1.1"


def test_a_page_says_what_must_be_on_disk_and_where_to_get_it(reconcile: Reconcile) -> None:
    reported = reconcile.succeed("benchmarks", "show", "resnet")
    for part in ("val_map.txt", "image-net.org", "resnet50_v1.onnx", "input_tensor:0 float32 [3, 224, 224]"):
        assert part in reported


def test_the_line_of_a_page_is_all_that_a_spec_must_say_of_a_benchmark(tmp_path: Path, reconcile: Reconcile) -> None:
    reported = reconcile.succeed("benchmarks", "show", "bert")
    (line,) = [line.strip().removeprefix("in a spec").strip() for line in reported.splitlines() if "in a spec" in line]
    written = line.replace("backend: …", "backend: onnxruntime").replace("…", "/data")
    spec = (
        "apiVersion: mlperf-reconciler/v1\nkind: Submission\nmetadata: {name: one}\nspec:\n  round: v6.1\n"
        f"  submitter: ACME\n  systems: {{box: {{category: edge, status: available}}}}\n  {written}\n"
        "  divisions: {closed: {box: {bert: {Offline: {target_qps: 10}}}}}\n"
    )
    (cell,) = load_texts(tmp_path, main=spec).cells
    assert cell.settings["benchmark.official"].value == "bert-99"


def test_a_page_names_the_settings_that_a_spec_may_write(reconcile: Reconcile) -> None:
    assert "settings     dtype (int64, int32), count, unpublished" in reconcile.succeed("benchmarks", "show", "bert")


def test_a_digest_of_an_archive_is_distinguished_from_that_of_a_file(reconcile: Reconcile) -> None:
    """No one could find it by hashing what came out of it."""
    reported = reconcile.succeed("benchmarks", "show", "resnet50")
    assert "md5 f963098ea0e785a968ca1eb634003a90 of caffe_ilsvrc12.tar.gz" in reported
    assert "md5 f6a4da60cd5f084d97efc2c1ddb10beb\n" in reported


def test_both_say_what_is_missing_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", str(tmp_path))
    (tmp_path / "data/imagenet").mkdir(parents=True)
    (tmp_path / "data/imagenet/val_map.txt").write_text("a 1")
    (tmp_path / "data/imagenet/ILSVRC2012_val_00000001.JPEG").write_text("image")
    reported = reconcile.succeed("benchmarks")
    assert "2 of 3" in next(line for line in reported.splitlines() if line.startswith("resnet "))
    page = reconcile.succeed("benchmarks", "show", "resnet50")
    assert "1 of 50,000 files exist" in page
    assert "reconcile fetch resnet50" in page
    document = reconcile.report("benchmarks", "show", "resnet50")
    assert {Path(item["path"]).name: item["presence"] for item in document["files"]} == {
        "resnet50_v1.onnx": "missing",
        "val_map.txt": "here, unproved",
        "ILSVRC2012_val_*.JPEG": "incomplete",
    }


@pytest.mark.parametrize("name", ["wan-2.2-t2v-a14b", "stable-diffusion-xl", "deepseek-r1", "mixtral-8x7b"])
def test_the_command_of_a_page_can_be_pasted_into_a_spec(name: str, reconcile: Reconcile) -> None:
    reported = reconcile.succeed("benchmarks", "show", name)
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
def test_a_name_of_results_is_found_as_well(name: str, works: str, reconcile: Reconcile) -> None:
    reported = reconcile.succeed("benchmarks", "show", name)
    assert works in next(line for line in reported.splitlines() if "what works here" in line)
    assert not name.endswith("-interactive") or "Interactive" in reported.partition("\nrounds\n")[2]


def test_an_unknown_name_gets_the_nearest(reconcile: Reconcile) -> None:
    assert "did you mean resnet50?" in reconcile.refuse("benchmarks", "show", "resnet51")
