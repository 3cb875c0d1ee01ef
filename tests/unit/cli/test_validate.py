"""`reconcile validate`: everything that is wrong, in one run; what is not on this machine is no mistake."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import SPEC, Reconcile, edit

MODEL = "model: {settings: {epochs: 1}}"


def test_a_variable_that_is_not_set_hides_nothing_and_stops_nothing(
    recorded: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NETS", raising=False)
    edit(recorded, MODEL, f'{MODEL}\n      dataset: {{path: "${{NETS}}/images"}}')
    for command in ("validate", "plan", "status"):
        code, out, err = reconcile(command)
        assert (code in (0, 2), err) == (True, ""), command
        assert ("NETS is not set" in out) is (command != "status"), command
    assert "specs/one.yaml:19:" in reconcile("validate")[1]
    edit(recorded, "target_qps: 1000", "target_qsp: 1000")
    assert "write target_qps" in reconcile.refuse("validate")


def test_resources_are_counted_as_the_plan_counts_them(recorded: Path, reconcile: Reconcile) -> None:
    edit(recorded, '"null", batch_size: 8', "onnxruntime")
    edit(recorded, "Offline: {", "SingleStream: {}\n          MultiStream: {}\n          Offline: {")
    counted = reconcile.report("validate")["resources"]
    plan = reconcile.report("plan")
    assert counted == len({step["key"] for step in plan["steps"]}) + plan["unchanged"]
    assert f"(3 cells, {counted} resources, " in reconcile("validate")[1]


def test_an_unset_variable_blocks(declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NETS", raising=False)
    edit(declared, "code: digits", "code: mine.py")
    edit(declared, MODEL, 'model: {path: "${NETS}/net.onnx"}')
    (declared / "mine.py").write_text("def build_dataset(request): ...\n")
    code, out, _ = reconcile("plan")
    assert code == 2
    assert "the environment variable NETS for ${NETS}/net.onnx is not set" in out
    assert "export NETS=/path/to/it" in out


def test_rules_of_the_round_are_checked_next_to_a_misspelt_key(declared: Path, reconcile: Reconcile) -> None:
    edit(declared, "category: edge", "category: datacenter")
    edit(declared, "    open:", "    closed:\n      box:\n        digits: {SingleStream: {}}\n    open:")
    edit(declared, "target_qps: 1000", "target_qsp: 1000")
    err = reconcile.refuse("validate")
    assert "specs/one.yaml:27:21: spec.divisions.open.box.digits.Offline.target_qsp" in err
    assert "specs/one.yaml:23:18: spec.divisions.closed.box.digits.SingleStream: round v6.1 does not allow" in err
    assert "2 problems" in err
    edit(declared, "round: v6.1", "round: v9.9")
    assert "3 problems" not in reconcile("validate")[2]
    assert "v9.9" in reconcile("validate")[2]


def test_one_mistake_of_a_benchmark_is_one_problem_of_many_cells(declared: Path, reconcile: Reconcile) -> None:
    edit(declared, "  rehearsal: true\n", "")
    edit(declared, "engine: {backend", "min_duration: 1 s\n      engine: {backend")
    edit(declared, "min_duration: 0, ", "")
    edit(declared, "          Offline:", "          SingleStream: {}\n          Offline:")
    code, _, err = reconcile("validate")
    assert (code, err.count("requires at least 600 s")) == (1, 1)


def test_standard_input(declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    give(SPEC)
    assert reconcile.report("validate", "-", ends=0)["files"] == ["<stdin>"]
    give(SPEC.replace("target_qps", "target_qsp"))
    assert "<stdin>:24:21:" in reconcile.refuse("validate", "-")
    give(SPEC)
    assert "set here and in specs/one.yaml" in reconcile("validate", "specs", "-")[2]


@pytest.mark.parametrize("what", ["nowhere.yaml", "linked.yaml", "../specs"])
def test_a_link_that_cannot_be_followed_is_named(declared: Path, reconcile: Reconcile, what: str) -> None:
    (declared / "specs/linked.yaml").symlink_to(what)
    for command in ("validate", "plan"):
        code, _, err = reconcile(command)
        assert (code, err.startswith("error: specs/linked.yaml:1:1: ")) == (1, True), command
    expected = {
        "nowhere.yaml": "the link points to nowhere.yaml, which does not exist",
        "linked.yaml": "the link points back to itself",
        "../specs": "links to folders are not followed",
    }
    assert expected[what] in err


def test_what_is_no_file_is_refused_at_once(declared: Path, reconcile: Reconcile) -> None:
    os.mkfifo(declared / "specs/pipe.yaml")
    for words in (("validate",), ("plan",), ("validate", "specs/pipe.yaml"), ("plan", "specs/pipe.yaml")):
        code, _, err = reconcile(*words)
        assert (code, "specs/pipe.yaml:1:1: it is not a regular file" in err) == (1, True), words
    assert "/dev/zero:1:1: it is not a regular file" in reconcile("validate", "/dev/zero")[2]


def test_a_valid_spec_that_lacks_what_a_submission_needs_says_so(declared: Path, reconcile: Reconcile) -> None:
    assert reconcile("validate")[0] == 0
    edit(declared, "  rehearsal: true\n", "")
    edit(declared, "min_duration: 0, ", "")
    edit(declared, "    open:", "    closed:")
    for command in ("validate", "plan"):
        code, _, err = reconcile(command)
        assert (code, "min_query_count is 512 samples" in err) == (1, True), "fewer than the round asks for"
        assert re.search(r"specs/one\.yaml:\d+:\d+: .*24576", err)
    assert "min_query_count is 512 samples" in reconcile("doctor")[1]
    edit(declared, ", min_query_count: 512", "")
    code, out, err = reconcile("validate")
    assert (code, err, out.startswith("Valid: specs/one.yaml")) == (2, "", True)
    assert "specs/one.yaml:9:5: spec.systems.box.description: the description of box has no" in out
    assert "specs/one.yaml:16:13: spec.benchmarks.digits: digits (handwritten digits" in out
    assert "spec.documents" not in out, "records will state how the model was made"
    found = reconcile.report("validate", ends=2)
    assert (found["valid"], found["complete"], len(found["gaps"])) == (True, False, 2)
    assert reconcile("plan")[0] == 2


def test_code_that_is_not_there_is_named_and_stops_nothing(declared: Path, reconcile: Reconcile) -> None:
    command = 'command: [run, "{run_dir}", "{user_conf}"], score: {command: [score]}'
    edit(declared, MODEL, f"{MODEL}\n      harness: {{{command}, code: ours, configs: [/nonexistent/run.conf]}}")
    code, out, _ = reconcile("validate")
    assert code == 2
    assert "specs/one.yaml:19:" in out
    assert "spec.benchmarks.digits.harness.code: no such file or folder: 'ours'" in out
    assert "no such file or folder: '/nonexistent/run.conf' on this machine" in out
    (declared / "ours").mkdir()
    code, out, _ = reconcile("validate")
    assert (code, "'ours'" in out, "'/nonexistent/run.conf'" in out) == (0, False, True)


SECRET = "hunter2-0123456789"


@pytest.mark.parametrize("how", ["absolute", "relative", "chain", "folder", "of git"])
def test_a_link_out_of_the_repository_is_refused_and_nothing_of_its_file_is_shown(
    declared: Path, reconcile: Reconcile, tmp_path_factory: pytest.TempPathFactory, how: str
) -> None:
    """In every command that reads specs: anyone who sends a branch chooses where its links lead."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.yaml").write_text(f"root: {SECRET}\n  {SECRET}: [\n")
    link = declared / "specs/linked.yaml"
    if how == "absolute":
        link.symlink_to(outside / "secret.yaml")
    elif how == "relative":
        link.symlink_to(os.path.relpath(outside / "secret.yaml", link.parent))
    elif how == "chain":
        (declared / "within.yaml").symlink_to(outside / "secret.yaml")
        link.symlink_to("../within.yaml")
    elif how == "of git":
        (declared / ".git").mkdir(exist_ok=True)
        (declared / ".git/secret.yaml").write_text(f"root: {SECRET}\n  {SECRET}: [\n")
        link.symlink_to("../.git/secret.yaml")
    else:
        shutil.rmtree(declared / "specs")
        (declared / "specs").symlink_to(outside)
    cell = "open/box/tiny/Offline"
    named = [] if how == "folder" else ["specs/linked.yaml"]
    for words in (
        ["validate"],
        ["validate", *named],
        ["validate", *(str(declared / name) for name in named)],
        ["plan"],
        ["plan", *named],
        ["status"],
        ["fmt"],
        ["fmt", *named],
        ["fmt", "--check"],
        ["why", cell],
        [],
        named,
    ):
        code, out, err = reconcile(*words)
        assert (code, SECRET in out + err) == (1, False), words
        assert "the link points outside the repository" in err, words


def test_links_within_the_repository_are_followed(declared: Path, reconcile: Reconcile) -> None:
    (declared / "kept").mkdir()
    (declared / "specs/one.yaml").rename(declared / "kept/one.yaml")
    (declared / "specs/one.yaml").symlink_to("../kept/one.yaml")
    assert reconcile("validate")[0] == 0


@pytest.mark.parametrize(
    "text", [f"root:{SECRET}:0:0\nx: [{SECRET}\n", f"{SECRET}: &a *b\n", f'"{SECRET}\n', f"- {SECRET}\n", SECRET]
)
def test_nothing_of_a_file_that_is_no_spec_is_quoted(declared: Path, reconcile: Reconcile, text: str) -> None:
    (declared / "specs/other.yaml").write_text(text)
    for command in ("validate", "plan"):
        code, out, err = reconcile(command)
        assert (code, SECRET in out + err) == (1, False)
        assert "error: specs/other.yaml:" in err


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        ("rehearsal: true", "rehearsal: yes please", "spec.rehearsal"),
        ('backend: "null"', "backend: vllm", "spec.benchmarks.digits.engine.backend"),
        ("{target_qps: 1000", "{target_latency: 15 ms", "spec.divisions.open.box.digits.Offline.target_latency"),
    ],
)
def test_one_mistake_is_one_problem(declared: Path, reconcile: Reconcile, before: str, after: str, path: str) -> None:
    edit(declared, before, after)
    report = reconcile.report("validate")
    assert [problem["path"] for problem in report["problems"]] == [path]


def test_a_dataset_that_its_record_shows_to_be_too_small_is_a_gap(recorded: Path, reconcile: Reconcile) -> None:
    def list_small() -> list[str]:
        gaps = reconcile.report("validate")["gaps"]
        return [f"{gap['line']}:{gap['column']}" for gap in gaps if "1,024" in gap["message"]]

    assert not list_small()  # a rehearsal
    edit(recorded, "  rehearsal: true\n", "")
    edit(recorded, ", min_duration: 0, min_query_count: 512", "")
    number = (recorded / "specs/one.yaml").read_text().splitlines().index("      code: digits") + 1
    assert list_small() == [f"{number}:13"]
    count = len(reconcile.report("validate")["gaps"])
    assert f"{count} things" in reconcile("plan")[1]
    edit(recorded, MODEL, f"{MODEL}\n      dataset: {{settings: {{seed: 2}}}}")  # no such dataset is recorded yet
    assert not list_small()
