"""What comes with a built-in benchmark, so that a spec need not say it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.benchmarks import load_benchmark
from harness.contract import BENCHMARKS, Benchmark
from reconciler.errors import ReconcilerError, SpecError
from reconciler.rules.benchmark_facts import find_benchmark_facts, load_benchmark_facts, parse_benchmark_facts
from reconciler.rules.benchmark_files import (
    FileDigest,
    SourceFile,
    find_benchmark_files,
    load_benchmark_files,
    parse_size,
)
from reconciler.rules.rounds import list_rounds, load_ruleset
from tests.unit.spec.writing import catch_problems, give_head, load_texts

SPEC = give_head("""\
  systems: {box: {category: edge, status: available}}
  benchmarks: {NAME: BLOCK}
  divisions: {open: {box: {NAME: {Offline: {target_qps: 54}}}}}
""")


def declare(folder: Path, name: str, block: str) -> dict[str, object]:
    """The settings of the one cell of a benchmark that the spec writes so."""
    text = SPEC.replace("NAME", name).replace("BLOCK", block)
    (cell,) = load_texts(folder, main=text).cells
    return {setting: value.value for setting, value in cell.settings.items()}


def test_any_name_finds_the_first_benchmark_that_has_it() -> None:
    known = load_benchmark_facts().values()
    for name in {name for facts in known for name in (*facts.names, facts.code)}:
        assert find_benchmark_facts(name) is next(facts for facts in known if name in (*facts.names, facts.code))
    assert find_benchmark_facts("benchmark-000") is None


@pytest.mark.parametrize("name", ["resnet50", "resnet"])
def test_two_paths_are_enough_for_a_benchmark_of_mlperf(tmp_path: Path, name: str) -> None:
    block = "{dataset: {path: data}, model: {path: m.onnx}, engine: {backend: onnxruntime}}"
    settings = declare(tmp_path, name, block)
    assert settings["benchmark.code"] == "resnet50"
    assert settings["benchmark.official"] == "resnet"
    assert settings["measurements.starting_weights_filename"] == "resnet50_v1.onnx"


@pytest.mark.parametrize("name", ["resnet50", "resnet"])
def test_a_harness_command_prepares_a_benchmark_itself(tmp_path: Path, name: str) -> None:
    harness = "{command: [run, '{run_dir}', '{user_conf}'], code: harness, score: {command: [score]}}"
    settings = declare(tmp_path, name, f"{{as: resnet, harness: {harness}}}")
    assert settings["benchmark.code"] == "command"
    assert "measurements.starting_weights_filename" not in settings


def test_facts_name_what_the_program_and_the_rounds_have() -> None:
    facts = load_benchmark_facts()
    assert facts
    rulesets = [load_ruleset(name) for name in list_rounds()]
    official = {name for ruleset in rulesets for name in (*ruleset.benchmarks, *ruleset.earlier)}
    for name, found in facts.items():
        assert (name in BENCHMARKS) == found.support.runs
        assert not found.support.runs or BENCHMARKS[name].module in (name, "language.published")
        assert found.support.because or found.support.runs
        assert bool(found.support.script) == bool(found.support.sha256)
        assert set(found.names.values()) <= official
        assert all(find_benchmark_facts(known) is found for known in found.names)
    names = [name for found in facts.values() for name in found.names]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["resnet50", "3d-unet-99", "dlrm-v2-99"])
def test_measurements_report_types_whatever_a_benchmarks_code_is_called(tmp_path: Path, name: str) -> None:
    settings = declare(tmp_path, name, "{engine: {backend: onnxruntime}}")
    assert settings["measurements.input_data_types"] == settings["measurements.weight_data_types"] == "fp32"


def test_every_benchmark_of_the_rounds_is_listed() -> None:
    """What works here is said of each; none is left out. Of rounds before v4.1 trees are only read: their benchmarks
    that no later round had need no harness."""
    known = {official for found in load_benchmark_facts().values() for official in found.names.values()}
    rounds = list_rounds()
    rulesets = [load_ruleset(name) for name in rounds[rounds.index("v4.1") :]]
    assert {name for ruleset in rulesets for name in ruleset.benchmarks} - known == set()


def test_a_benchmark_that_does_not_run_here_says_why_and_what_does(tmp_path: Path) -> None:
    (problem,) = catch_problems(declare, tmp_path, "e2e-rag-qna", "{engine: {backend: onnxruntime}}")
    assert "e2e-rag-qna does not run here by itself: it is " in problem.message
    assert "`reconcile benchmarks show e2e-rag-qna`" in problem.fix


def test_the_official_script_may_score_what_runs_here(tmp_path: Path) -> None:
    score = "{code: mixtral, score: {command: [python, evaluate-accuracy.py, '{accuracy_log}']}}"
    settings = declare(tmp_path, "mixtral-8x7b", f"{{engine: {{backend: openvino-genai}}, harness: {score}}}")
    assert settings["benchmark.code"] == "mixtral_8x7b"
    assert settings["harness.score.command"] == ("python", "evaluate-accuracy.py", "{accuracy_log}")


def test_code_of_a_score_without_its_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        declare(tmp_path, "mixtral-8x7b", "{engine: {backend: openvino-genai}, harness: {code: mixtral}}")
    assert [problem.message for problem in caught.value.problems] == ["harness has no command"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("metric: acc\n", ""), "`metric`"),
        (("samples: 64", "samples: many"), "`$.rehearsal.samples`"),
        (("rehearsal: {", "rehearsal: {sample: 1, "), "`sample`"),
    ],
)
def test_a_mistake_in_the_file_of_a_benchmark_is_named(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    text = """title: points
names: {points: resnet}
metric: acc
dataset: {title: made up}
model: {title: made up}
rehearsal: {samples: 64}
"""
    path = tmp_path / "points" / "benchmark.yaml"
    path.parent.mkdir()
    path.write_text(text)
    assert parse_benchmark_facts(path).code == "points"
    path.write_text(text.replace(*change))
    with pytest.raises(ReconcilerError, match=re.escape("points/benchmark.yaml: ")) as raised:
        parse_benchmark_facts(path)
    assert said in raised.value.message


def test_the_answers_of_a_benchmark_are_what_its_code_writes() -> None:
    for facts in load_benchmark_facts().values():
        if facts.support.runs:
            assert facts.answers.dtype == load_benchmark(Benchmark(name=facts.code)).response_dtype, facts.code


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0 B", 0),
        ("7 B", 7),
        ("1 KiB", 1024),
        ("98 MiB", 102_760_448),
        ("6.3 GiB", 6_764_573_491),
        ("1.5 TiB", 1_649_267_441_664),
    ],
)
def test_a_size_is_a_number_of_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_a_digest_accepts_the_versions_that_are_as_good() -> None:
    digest = FileDigest("md5", "a1", "somebody", ("b2", "c3"))
    assert [digest.accepts(value) for value in ("a1", "b2", "c3", "d4", "")] == [True, True, True, False, False]
    assert not FileDigest("md5", "a1").accepts("b2")


def make(**changes: object) -> SourceFile:
    given: dict[str, object] = {"path": "models/x/y.onnx", "about": "y", "licence": "MIT", "size": 1, **changes}
    return SourceFile(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "packed", "archive"),
    [
        ({}, False, ""),
        ({"sources": ("https://host/a/b.tar.gz?x=1",)}, False, ""),
        ({"sources": ("https://host/a/b.tar.gz?x=1", "https://other/c.zip"), "member": "y"}, True, "b.tar.gz"),
        ({"sources": ("https://host/a/b.tar.gz#y",), "unpack": ""}, True, "b.tar.gz"),
    ],
    ids=["nowhere", "as it is", "a member", "the whole"],
)
def test_a_file_may_come_out_of_an_archive(changes: dict[str, object], packed: bool, archive: str) -> None:
    assert (make(**changes).is_archive, make(**changes).archive) == (packed, archive)


def test_a_benchmark_is_found_by_any_name_the_first_that_is_known() -> None:
    found = load_benchmark_files()
    assert list(found) == sorted(found)
    assert all(item.name == name == item.names[0] for name, item in found.items())
    for item in found.values():
        assert all(find_benchmark_files(name) == item for name in (*item.names, item.folder))
    assert find_benchmark_files("nobody", "resnet", "bert-99") is found["resnet50"]
    assert find_benchmark_files("nobody") is None
    assert find_benchmark_files() is None
