"""`reconcile rounds` and its sub-commands."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import Reconcile


def test_rounds_lists_them_oldest_first(reconcile: Reconcile) -> None:
    code, out, err = reconcile("rounds")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [
        *("v0.7", "v1.0", "v1.1", "v2.0", "v2.1", "v3.0", "v3.1", "v4.0"),
        *("v4.1", "v5.0", "v5.1", "v6.0", "v6.1"),
    ]
    report = json.loads(reconcile("rounds", "--json")[1])
    assert report["report"] == "rounds"
    assert report["rounds"][-1]["benchmarks"][0] == "resnet"


def test_show_a_round(reconcile: Reconcile) -> None:
    code, out, _ = reconcile("rounds", "show", "v6.1")
    assert code == 0
    assert "v6.1: 21 benchmarks, layout v6" in out
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "llama3.1-8b datacenter Offline and (Interactive or Server) TEST06" in rows
    assert "whisper datacenter Offline TEST01" in rows
    assert "edge Offline" in rows, "the other category of the row above it"
    both = [row for row in rows if "datacenter,edge" in row]
    assert len(both) == 2, "resnet and stable-diffusion-xl: Server counts only there"


@pytest.mark.parametrize("name", ["resnet", "resnet50"])
def test_show_a_benchmark_by_its_name_or_an_alias(reconcile: Reconcile, name: str) -> None:
    code, out, _ = reconcile("rounds", "show", "v6.1", name)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert ["most_target_latency", "15", "ms", "policy,", "checker"] in lines
    assert ["accuracy.acc.least", "75.6954", "policy,", "checker"] in lines
    assert not any(line and line[0].startswith("tests.TEST06") for line in lines), "it needs no such test"


def test_show_as_json(reconcile: Reconcile) -> None:
    report = json.loads(reconcile("rounds", "show", "v6.1", "dlrm-v3", "--json")[1])
    value = report["benchmarks"]["dlrm-v3"]["values"]["Server"]["most_target_latency"]
    assert value["value"] == 80_000_000
    assert value["sources"] == ["policy", "mlperf.conf"]
    whole = json.loads(reconcile("rounds", "show", "v6.1", "--json")[1])
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
    code, out, _ = reconcile("rounds", "conflicts")
    assert code == 0
    assert out == reconcile("rounds", "conflicts", "v6.1")[1]
    lines = out.splitlines()
    place = lines.index("gpt-oss-120b / Interactive / most_tpot_latency")
    assert lines[place + 1].split() == ["counts", "15", "ms", "checker,", "mlperf.conf", "the", "strictest"]
    assert lines[place + 2].split() == ["20", "ms", "policy", "less", "strict"]
    report = json.loads(reconcile("rounds", "conflicts", "v5.1", "--json")[1])
    assert report["round"] == "v5.1"
    assert all(statement["because"] for found in report["conflicts"] for statement in found["statements"])


def test_diff_as_a_table_and_as_json(reconcile: Reconcile) -> None:
    code, out, _ = reconcile("rounds", "diff", "v6.0", "v6.1")
    assert code == 0
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "v6.0 → v6.1"
    assert {"+ e2e-rag-qna", "- retinanet"} <= set(lines)
    assert "most_target_latency             nothing → 1.5 s" in lines
    assert "nothing changed" in reconcile("rounds", "diff", "v6.0", "v6.0")[1]
    report = json.loads(reconcile("rounds", "diff", "v6.0", "v6.1", "--json")[1])
    assert (report["before"], report["after"]) == ("v6.0", "v6.1")
    (seed,) = (change for change in report["changes"] if change["name"] == "qsl_rng_seed")
    assert (seed["benchmark"], seed["scenario"]) == (None, None)
