"""Each kind of broken spec: exact place, plain words, the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import SpecError
from reconciler.spec.loading import load
from tests.unit.spec.writing import HEADER, VALID, problems_in, replaced

# name: (text, line, column, path, part of the message, part of the fix)
BROKEN = {
    "wrong type": (
        replaced("batch_size: 1", "batch_size: many"),
        *(15, 50, "spec.benchmarks.digits.engine.batch_size", "not a whole number", "whole number of at least 1"),
    ),
    "too many streams": (
        replaced("target_qps: 54", "target_qps: 54, run: {streams: 1025}"),
        *(20, 52, "spec.divisions.open.box.digits.Offline.run.streams", "1025 is out of range", "from 1 to 1024"),
    ),
    "too many threads": (
        replaced("target_qps: 54", "target_qps: 54, run: {threads: 4097}"),
        *(20, 52, "spec.divisions.open.box.digits.Offline.run.threads", "4097 is out of range", "from 0 to 4096"),
    ),
    "group for a value": (
        replaced("target_qps: 54", "target_qps: {rate: 54}"),
        *(20, 33, "spec.divisions.open.box.digits.Offline.target_qps", "not a group of settings", "such as 54 /s"),
    ),
    "value for a group": (
        replaced("Offline: {target_qps: 54}", "Offline: 54"),
        *(20, 20, "spec.divisions.open.box.digits.Offline", "expected a group of settings, not", "{target_qps: 54}"),
    ),
    "merge conflict": (
        replaced(
            "          Offline: {target_qps: 54}\n",
            "<<<<<<< HEAD\n          Offline: {target_qps: 54}\n=======\n          Offline: {target_qps: 55}\n"
            ">>>>>>> more\n",
        ),
        *(20, 1, "", "a merge conflict is left", "keep one side"),
    ),
    "unknown key": (
        replaced("target_qps: 54", "target_qsp: 54"),
        *(
            20,
            21,
            "spec.divisions.open.box.digits.Offline.target_qsp",
            "is not a setting of Offline",
            "write target_qps",
        ),
    ),
    "key in the wrong group": (
        replaced("as: resnet", "backend: onnxruntime"),
        *(14, 7, "spec.benchmarks.digits.backend", "is not a setting of digits", "engine: {backend: …}"),
    ),
    "bad scenario": (
        replaced("Offline:", "offlin:"),
        *(20, 11, "spec.divisions.open.box.digits.offlin", "is not a scenario", "write Offline"),
    ),
    "bad division": (
        replaced("    open:", "    opened:"),
        *(17, 5, "spec.divisions.opened", "is not a division", "write open"),
    ),
    "duplicate system": (
        replaced("  benchmarks:", "    box: {category: edge, status: rdi}\n  benchmarks:"),
        *(12, 5, "spec.systems.box", "box is written twice: first on line 11", "keep one"),
    ),
    "YAML syntax": (
        replaced("{name: acme}", "{name: acme"),
        *(3, 11, "", "the group is not closed", "'}' behind them"),
    ),
    "unclosed quote": (
        VALID + '    closed: "\n',
        *(21, 13, "", "never closed", "close the quotes"),
    ),
    "tab": (
        VALID + "\t\tServer: {}\n",
        *(21, 1, "", "a tab", "spaces"),
    ),
    "missing unit": (
        replaced("min_duration: 0", "min_duration: 600"),
        *(8, 27, "spec.defaults.short.min_duration", "'600' has no unit", "ns, us, ms, s, min, h"),
    ),
    "wrong unit": (
        replaced("target_qps: 54", "target_latency: 100 MB"),
        *(
            20,
            37,
            "spec.divisions.open.box.digits.Offline.target_latency",
            "'100 MB' is a size",
            "duration in ns, us, ms",
        ),
    ),
    "unset variable of the tree, which is written to": (
        replaced("submitter: ACME", "submitter: ACME\n  tree: '${DATA}/x'"),
        *(7, 9, "spec.tree", "DATA is not set", "export DATA="),
    ),
    "variable in another field": (
        replaced("submitter: ACME", "submitter: '${WHO}'"),
        *(6, 14, "spec.submitter", "which only locations may use", "write the value itself"),
    ),
    "circle of defaults": (
        replaced("short: {min_duration: 0}", "short: {use: quick}"),
        *(8, 18, "spec.defaults.short.use", "short (main.yaml:8) → quick (main.yaml:9) → short", "take quick out"),
    ),
    "defaults that use themselves": (
        replaced("use: [short]", "use: [quick]"),
        *(9, 18, "spec.defaults.quick.use", "quick (main.yaml:9) → quick", "take quick out"),
    ),
    "empty file": ("", 1, 1, "", "the file is empty", "apiVersion"),
    "only comments": ("# nothing\n\n", 1, 1, "", "the file is empty", "apiVersion"),
    "a list": ("- a\n", 1, 1, "", "no settings", "apiVersion"),
    "no apiVersion": (
        VALID.replace("apiVersion: mlperf-reconciler/v1\n", ""),
        *(1, 1, "apiVersion", "apiVersion is missing", "apiVersion: mlperf-reconciler/v1"),
    ),
    "another apiVersion": (
        VALID.replace("r/v1", "r/v9"),
        *(1, 13, "apiVersion", "'mlperf-reconciler/v9', not", "apiVersion: mlperf-reconciler/v1"),
    ),
    "missing setting": (
        replaced("  round: v6.1\n", ""),
        *(4, 1, "spec.round", "round is missing", "round: v6.1"),
    ),
    "undeclared system": (
        replaced("      box:\n", "      bx:\n"),
        *(18, 7, "spec.divisions.open.bx", "bx is not a declared system", "write box"),
    ),
    "undeclared benchmark": (
        replaced("        digits:\n", "        digit:\n"),
        *(19, 9, "spec.divisions.open.box.digit", "digit is not a declared benchmark", "write digits"),
    ),
    "undeclared block": (
        replaced("use: [short]", "use: [shrt]"),
        *(9, 19, "spec.defaults.quick.use", "shrt is not a block", "write short"),
    ),
    "unknown backend": (
        replaced("backend: onnxruntime", "backend: onnx-runtime"),
        *(15, 25, "spec.benchmarks.digits.engine.backend", "is not a valid backend", "write onnxruntime"),
    ),
    "no backend": (
        replaced("backend: onnxruntime, ", ""),
        *(20, 11, "spec.divisions.open.box.digits.Offline", "no backend is chosen", "engine: {backend: onnxruntime}"),
    ),
    "unknown option": (
        replaced("batch_size: 1", "options: {graph_optimisation: all}"),
        *(15, 68, "spec.benchmarks.digits.engine.options.graph_optimisation", "no engine option", "graph_optimization"),
    ),
    "wrong choice": (
        replaced("batch_size: 1", "options: {graph_optimization: al}"),
        *(
            15,
            68,
            "spec.benchmarks.digits.engine.options.graph_optimization",
            "is not a valid graph_optimization",
            "write all",
        ),
    ),
    "precision": (
        replaced("batch_size: 1", "precision: bf16"),
        *(15, 49, "spec.benchmarks.digits.engine.precision", "does not compute in bf16", "openvino"),
    ),
    "weights of fewer bits than a backend reads": (
        replaced(
            "engine: {backend: onnxruntime, batch_size: 1}",
            "engine: {backend: tensorrt, batch_size: 1}\n      model: {settings: {weights: int4}}",
        ),
        *(
            16,
            35,
            "spec.benchmarks.digits.model.settings.weights",
            "tensorrt does not read weights of type int4",
            "choose backend onnxruntime or openvino",
        ),
    ),
    "int8 asked of an engine that takes it from the model": (
        replaced("batch_size: 1", "precision: int8"),
        *(
            15,
            49,
            "spec.benchmarks.digits.engine.precision",
            "not compute in int8",
            "model: {settings: {precision: int8",
        ),
    ),
    "missing code": (
        replaced("as: resnet", "code: mine.py"),
        *(14, 13, "spec.benchmarks.digits.code", "there is no file 'mine.py'", "correct the path"),
    ),
    "code with an endless name": (
        replaced("as: resnet", f"code: {'x' * 5000}.py"),
        *(14, 13, "spec.benchmarks.digits.code", "there is no file 'xxx", "correct the path"),
    ),
    "description of what is set elsewhere": (
        replaced("status: available}", "status: available, description: {submitter: Me}}"),
        *(11, 60, "spec.systems.box.description.submitter", "not described here", "spec.submitter"),
    ),
    "control codes": (
        replaced("target_qps: 54", 'target_qps: "\\e[31m"'),
        *(20, 33, "spec.divisions.open.box.digits.Offline.target_qps", "'�[31m' is not a rate", "54 /s"),
    ),
    "contradiction": (
        replaced("target_qps: 54", "max_query_count: 3, min_query_count: 4"),
        *(20, 58, "spec.divisions.open.box.digits.Offline.min_query_count", "greater than max_query_count", "lower"),
    ),
    "empty value": (
        replaced("target_qps: 54", "target_qps: "),
        *(20, 33, "spec.divisions.open.box.digits.Offline.target_qps", "expected a rate, not nothing", "54 /s"),
    ),
    "secret value": (
        replaced("as: resnet", "model: {settings: {note: hf_abcdefghijklmnopqrstuvwxyz}}"),
        *(14, 32, "spec.benchmarks.digits.model.settings.note", "looks like a secret", "{from_env: NAME}"),
    ),
    "secret name": (
        replaced("as: resnet", "model: {settings: {api_key: abc}}"),
        *(14, 35, "spec.benchmarks.digits.model.settings.api_key", "looks like a secret", "{from_env: NAME}"),
    ),
    "merge key": (
        replaced("target_qps: 54", "<<: {target_qps: 54}"),
        *(20, 21, "spec.divisions.open.box.digits.Offline.<<", "<< is not a setting", "spec.defaults"),
    ),
    "second document": (VALID + "---\na: 1\n", 21, 1, "", "a second document", "one document per file"),
    "unknown alias": (
        replaced("target_qps: 54", "target_qps: *x"),
        *(20, 33, "spec.divisions.open.box.digits.Offline.target_qps", "*x refers to nothing", "&x"),
    ),
    "alias of itself": (
        replaced("  defaults:\n", "  defaults: &d\n    loop: *d\n"),
        *(8, 11, "spec.defaults.loop", "contains itself", "without the alias"),
    ),
    "tag": (
        replaced("target_qps: 54", "target_qps: !!float 54"),
        *(20, 33, "spec.divisions.open.box.digits.Offline.target_qps", "the tag", "remove the tag"),
    ),
    "control character": (replaced("ACME", "AC\x07ME"), 6, 16, "", "U+0007", "delete it"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_spec_is_told_where_what_and_how_to_mend(name: str, tmp_path: Path) -> None:
    text, line, column, path, message, fix = BROKEN[name]
    problem = problems_in(tmp_path, main=text)[0]
    assert (problem.file, problem.line, problem.column, problem.path) == ("main.yaml", line, column, path), str(problem)
    assert message in problem.message
    assert fix in problem.fix


@pytest.mark.parametrize("name", sorted(set(BROKEN) - {"group for a value"}))
def test_one_mistake_is_one_problem(name: str, tmp_path: Path) -> None:
    assert len(problems_in(tmp_path, main=BROKEN[name][0])) == 1


def test_a_value_set_twice_names_both_files(tmp_path: Path) -> None:
    second = HEADER + "spec:\n  submitter: ACME\n  systems:\n    other: {category: edge, status: rdi}\n"
    (problem,) = problems_in(tmp_path, main=VALID, second=second)
    assert str(problem) == (
        "second.yaml:4:14: spec.submitter: set here and in main.yaml:6:14\n"
        "    fix: keep one of main.yaml:6 and second.yaml:4"
    )


def test_a_missing_file_offers_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "quickstart.yaml").write_text(VALID)
    with pytest.raises(SpecError) as caught:
        load([tmp_path / "quikstart.yaml"], tmp_path, {})
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.column) == ("quikstart.yaml", 1, 1)
    assert problem.fix == "did you mean quickstart.yaml?"


def test_a_path_that_no_file_system_takes(tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        load([tmp_path / ("x" * 5000)], tmp_path, {})


def test_an_empty_folder_and_no_file_at_all(tmp_path: Path) -> None:
    for paths in ([tmp_path], []):
        with pytest.raises(SpecError):
            load(paths, tmp_path, {})


@pytest.mark.parametrize(
    ("data", "line", "column", "part"),
    [(VALID.replace("ACME", "ACM\xc9").encode("latin-1"), 6, 17, "UTF-8"), (VALID.encode("utf-16"), 1, 1, "UTF-16")],
)
def test_other_encodings(tmp_path: Path, data: bytes, line: int, column: int, part: str) -> None:
    (tmp_path / "main.yaml").write_bytes(data)
    with pytest.raises(SpecError) as caught:
        load([tmp_path / "main.yaml"], tmp_path, {})
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (line, column)
    assert part in problem.message


def test_all_problems_of_all_files_in_one_run(tmp_path: Path) -> None:
    first = (
        VALID.replace("target_qps: 54", "target_qps: fast")
        .replace("category: edge", "category: edgy")
        .replace("use: [short]", "use: [shrt]")
        .replace("      box:\n", "      bux:\n")
        .replace("submitter: ACME\n", "submiter: ACME\n")
    )
    second = HEADER + "spec:\n  benchmarks:\n    digits: {as: mlperf}\n"
    found = [(problem.file, problem.line) for problem in problems_in(tmp_path, first=first, second=second)]
    assert found == [
        ("first.yaml", 6),  # submitter is misspelt, which is told once
        ("first.yaml", 9),
        ("first.yaml", 11),
        ("first.yaml", 18),
        ("first.yaml", 20),
        ("second.yaml", 5),
    ]


def test_a_file_that_cannot_be_read_hides_no_other_problem_and_invents_none(tmp_path: Path) -> None:
    systems = HEADER + "spec:\n  systems: {box: [\n"
    main = replaced("  systems:\n    box: {category: edge, status: available}\n", "").replace("54", "fast")
    found = [(problem.file, problem.line) for problem in problems_in(tmp_path, main=main, systems=systems)]
    assert found == [("main.yaml", 18), ("systems.yaml", 5)]


def test_a_secret_is_not_repeated(tmp_path: Path) -> None:
    secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    for text in (replaced("54", secret), replaced("target_qps", secret), replaced("ACME", f"https://me:{secret}@host")):
        assert secret not in "\n".join(map(str, problems_in(tmp_path, main=text)))
