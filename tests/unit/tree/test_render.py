"""The rendered tree: which files, which bytes, the same every time."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.errors import ReconcilerError
from reconciler.loadgen import log_files
from reconciler.loadgen.user_conf import parse_user_conf
from reconciler.publish.tree_files import group_by_cell
from reconciler.resource.kinds import Cell
from reconciler.resource.records import LOG_LIMIT
from reconciler.rules.accuracy import parse_accuracy
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.assemble import collect_test_files
from reconciler.tree.content import AccuracyLog, Content, LogRef, SubmissionContent
from reconciler.tree.documents import collect_system_fields, render_built_in_conf
from reconciler.tree.layout import name_folders
from reconciler.tree.render import render

from .conftest import ACCURACY_LOG, reference

HERE = Path(__file__).parent
CELL = "open/ACME/results/box/digits/Offline"


def tree(submission: SubmissionContent, ruleset: Ruleset) -> dict[str, Any]:
    return dict(render(submission, ruleset))


def test_paths_of_the_v6_layout(submission: SubmissionContent, ruleset: Ruleset) -> None:
    paths = [path for path, _ in render(submission, ruleset)]
    assert paths == (HERE / "expected_paths.txt").read_text().splitlines()
    assert paths == sorted(paths)


def test_system_json_has_every_mandatory_field_in_order(submission: SubmissionContent, ruleset: Ruleset) -> None:
    document = json.loads(tree(submission, ruleset)["open/ACME/systems/box.json"])
    mandatory = [field.name for field in ruleset.system_fields]
    assert list(document) == [*mandatory, "alpha", "zeta"]
    assert (document["division"], document["submitter"], document["system_type"]) == ("open", "ACME", "edge")
    assert document["accelerators_per_node"] == "0"
    assert document["hw_notes"] == ""
    assert len(mandatory) == 35
    assert sum(field.filled for field in ruleset.system_fields) == 26
    assert "is_network" not in document


def test_what_the_tool_knows_is_not_taken_from_the_description(submission: SubmissionContent, ruleset: Ruleset) -> None:
    lying = replace(submission.systems[0], description={"division": "closed", "status": "rdi"})
    fields = collect_system_fields(lying, "ACME", ruleset)
    assert (fields["division"], fields["status"], fields["system_name"]) == ("open", "available", "box")


def test_accuracy_files(submission: SubmissionContent, ruleset: Ruleset) -> None:
    files = tree(submission, ruleset)
    report = parse_accuracy(files[f"{CELL}/accuracy/accuracy.txt"].decode(), ["acc"])
    assert report.hash == reference(ACCURACY_LOG).sha256
    assert str(report.metrics["acc"][0].value) == "76.1"
    assert len(files[f"{CELL}/accuracy/mlperf_log_accuracy.json"]) == 8199


def test_rounds_that_want_mlperf_conf_get_what_loadgen_has_built_in(submission: SubmissionContent) -> None:
    old = load_ruleset("v4.1")
    confs = [path for path in tree(submission, old) if path.endswith("/mlperf.conf")]
    assert len(confs) == len(submission.cells)
    assert all("/measurements/box/" in path for path in confs)
    rules = old.benchmarks["llama2-70b-99"]
    conf = parse_user_conf(render_built_in_conf(rules, "Server"), "mlperf.conf")
    assert not conf.problems
    found = {name: value.text for name, value in conf.values.items()}
    assert found["llama2-70b.Server.sample_concatenate_permutation"] == "1"
    assert found["llama2-70b.Server.ttft_latency"] == "2000"
    assert found["*.*.qsl_rng_seed"] == "3066443479025735752"
    assert all(name.count(".") == 2 for name in found)  # the checker of that round splits them so
    later = load_ruleset("v5.0")
    assert not any(path.endswith("/mlperf.conf") for path in tree(submission, later))


def test_logs_and_user_conf_are_passed_on_unchanged(submission: SubmissionContent, ruleset: Ruleset) -> None:
    files = tree(submission, ruleset)
    cell = next(content for content in submission.cells if content.cell.scenario == "Offline")
    detail = files[f"{CELL}/performance/run_1/mlperf_log_detail.txt"]
    assert detail == cell.performance["mlperf_log_detail.txt"]
    assert isinstance(detail, LogRef)
    assert files[f"{CELL}/user.conf"] == cell.user_conf


def test_model_mapping_in_open_and_where_names_differ(submission: SubmissionContent, ruleset: Ruleset) -> None:
    files = tree(submission, ruleset)
    assert json.loads(files["open/ACME/model_mapping.json"]) == {"digits": "resnet"}
    assert "closed/ACME/model_mapping.json" not in files
    named = replace(submission, cells=submission.cells[2:])
    assert not [path for path in tree(named, ruleset) if path.endswith("model_mapping.json")]


def test_a_division_without_a_mapping_has_the_rounds_folders(submission: SubmissionContent, ruleset: Ruleset) -> None:
    entered = next(content for content in submission.cells if content.cell.division == "closed")
    assert entered.cell.benchmark == entered.official == "resnet"
    renamed = replace(entered, cell=replace(entered.cell, benchmark="resnet50"))
    code = {"resnet50": submission.code["resnet"]}
    before = {path for path in tree(submission, ruleset) if path.startswith("closed/")}
    after = tree(replace(submission, cells=(renamed,), code=code), ruleset)
    assert before == {path for path in after if path.startswith("closed/")}
    assert b"/resnet50/" in after["closed/ACME/results/box/resnet/Offline/README.md"], "commands have the spec's name"


def test_benchmarks_of_a_folder_must_not_differ_in_files(submission: SubmissionContent, ruleset: Ruleset) -> None:
    entered = next(content for content in submission.cells if content.cell.division == "closed")
    other = replace(entered, cell=replace(entered.cell, benchmark="resnet50", scenario="SingleStream"))
    both = replace(submission, cells=(entered, other), code={"resnet": {"a.py": b"1"}, "resnet50": {"b.py": b"2"}})
    assert {"closed/ACME/src/resnet/a.py", "closed/ACME/src/resnet/b.py"} <= tree(both, ruleset).keys()
    unlike = replace(both, code={"resnet": {"a.py": b"1"}, "resnet50": {"a.py": b"2"}})
    with pytest.raises(ReconcilerError, match=r"resnet and resnet50 are entered as one, with two a\.py"):
        tree(unlike, ruleset)


def test_rendered_files_are_known_by_the_cells_own_name(submission: SubmissionContent, ruleset: Ruleset) -> None:
    cell = Cell("closed", "box", "resnet50", "Offline")
    files = {"closed/ACME/results/box/resnet/Offline/user.conf": "1", "closed/ACME/systems/box.json": "2"}
    found = group_by_cell(files, {name_folders(cell, "resnet", ruleset): cell})
    assert found[str(cell)] == {"closed/ACME/results/box/resnet/Offline/user.conf": "1"}
    assert name_folders(replace(cell, division="open"), "resnet", ruleset).benchmark == "resnet50"


def test_nothing_of_this_machine_is_in_the_tree(submission: SubmissionContent, ruleset: Ruleset) -> None:
    written = b"".join(content for content in tree(submission, ruleset).values() if isinstance(content, bytes))
    for private in (os.uname().nodename, str(Path.cwd()), str(Path.home())):
        assert len(private) < 6 or private.encode() not in written
    assert not re.search(rb"20\d\d-\d\d-\d\d", written)


@pytest.mark.parametrize("seed", range(5))
def test_order_of_the_values_does_not_matter(submission: SubmissionContent, ruleset: Ruleset, seed: int) -> None:
    rng = random.Random(seed)

    def shuffled(mapping: Any) -> Any:
        return dict(rng.sample(list(mapping.items()), len(mapping)))

    cells = [
        replace(
            content,
            settings=shuffled(content.settings),
            measurements=shuffled(content.measurements),
            performance=shuffled(content.performance),
            compliance=shuffled(content.compliance),
        )
        for content in rng.sample(submission.cells, len(submission.cells))
    ]
    systems = tuple(
        replace(system, description=shuffled(system.description)) for system in reversed(submission.systems)
    )
    other = replace(submission, cells=tuple(cells), systems=systems)
    assert list(render(other, ruleset)) == list(render(submission, ruleset))


def test_locale_time_zone_and_hash_seed_do_not_matter() -> None:
    def digests(**variables: str) -> bytes:
        root = HERE.parents[2]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root), **variables}
        command = [sys.executable, str(HERE / "digest_child.py"), str(HERE)]
        return subprocess.run(command, env=environment, capture_output=True, check=True, cwd="/").stdout

    first = digests(TZ="Pacific/Auckland", LC_ALL="C", PYTHONHASHSEED="1", HOME="/a")
    second = digests(TZ="America/Los_Angeles", LC_ALL="C.UTF-8", PYTHONHASHSEED="2", PYTHONUTF8="1", HOSTNAME="b")
    assert first == second
    assert len(json.loads(first)) > 20


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "two words", "tab\t"])
def test_names_that_fit_no_tree_are_refused(submission: SubmissionContent, ruleset: Ruleset, name: str) -> None:
    with pytest.raises(ReconcilerError, match="cannot be a name"):
        list(render(replace(submission, submitter=name), ruleset))
    cell = submission.cells[0]
    wrong = replace(cell, performance={name if "/" not in name else "../x": b""})
    with pytest.raises(ReconcilerError, match="cannot be a name"):
        list(render(replace(submission, cells=(wrong,)), ruleset))


def test_an_untruncated_accuracy_log_is_refused(submission: SubmissionContent, ruleset: Ruleset) -> None:
    whole = replace(submission.cells[0], accuracy_log=AccuracyLog(reference(ACCURACY_LOG), reference(ACCURACY_LOG)))
    with pytest.raises(ReconcilerError, match=r"v6\.1 allows 10240"):
        list(render(replace(submission, cells=(whole,)), ruleset))


def test_files_of_one_path_and_two_meanings_are_refused(submission: SubmissionContent, ruleset: Ruleset) -> None:
    twice = replace(submission, cells=submission.cells[:1] * 2)
    with pytest.raises(ReconcilerError, match="two files claim"):
        list(render(twice, ruleset))
    both = (submission.cells[0], replace(submission.cells[1], official="bert-99"))
    with pytest.raises(ReconcilerError, match="digits is entered as"):
        list(render(replace(submission, cells=both), ruleset))


@pytest.mark.parametrize(
    ("test", "size", "answers"),
    [("TEST06", LOG_LIMIT, "whole"), ("TEST06", LOG_LIMIT + 1, "truncated"), ("TEST01", 100, "truncated")],
)
def test_folder_of_a_test_has_its_answers_whole_or_truncated_with_hash(test: str, size: int, answers: str) -> None:
    logs = {name: LogRef(name, 1) for name in (log_files.SUMMARY, log_files.DETAIL)}
    kept = {"whole": LogRef("a" * 64, size), "truncated": LogRef("b" * 64, 8)}
    run = {**logs, log_files.ACCURACY_LOG: kept["whole"], log_files.TRUNCATED: kept["truncated"]}
    found = collect_test_files(test, run, {"verify_accuracy.txt": LogRef("c" * 64, 9)})
    expected: dict[str, Content] = {"verify_accuracy.txt": LogRef("c" * 64, 9)}
    expected[f"accuracy/{log_files.ACCURACY_LOG}"] = kept[answers]
    if answers == "truncated":
        expected[f"accuracy/{log_files.ACCURACY_TEXT}"] = f"hash={'a' * 64}\n".encode()
    if test == "TEST01":
        expected |= {f"performance/run_1/{name}": log for name, log in logs.items()}
    assert found == expected
