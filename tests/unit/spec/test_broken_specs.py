"""Mistakes in specs, of each kind: exact place, plain words, the fix; and names that people bring from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler.desired.checks import check_reading
from reconciler.desired.compile import find_gaps
from reconciler.errors import Problem, SpecError
from reconciler.loadgen.settings import SETTINGS
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruled_value import is_field
from reconciler.spec import schema
from reconciler.spec.checks import find_absent_code
from reconciler.spec.files import Source, decode
from reconciler.spec.loading import load, read_texts
from reconciler.spec.schema import find_schema_node
from reconciler.spec.validation import explain_foreign
from tests.unit.spec.writing import HEADER, VALID, catch_problems, give_head, problems_in, replaced

Mistake = tuple[str, int, int, str]
OFFLINE, DIGITS = "spec.divisions.open.box.digits.Offline", "spec.benchmarks.digits"
ENGINE = "engine: {backend: onnxruntime, batch_size: 1}"


def in_cell(written: str, column: int, path: str = "") -> Mistake:
    """In place of the only setting of the cell."""
    return replaced("target_qps: 54", written), 20, column, OFFLINE + path


def in_benchmark(written: str, column: int, path: str) -> Mistake:
    """In place of the name of the benchmark's rules."""
    return replaced("as: resnet", written), 14, column, f"{DIGITS}.{path}"


def in_engine(written: str, column: int, path: str) -> Mistake:
    """In place of the engine's last setting."""
    return replaced("batch_size: 1", written), 15, column, f"{DIGITS}.engine.{path}"


# Text, and the line, column and path of its first problem. mistakes.yaml has more, without their paths.
BROKEN: dict[str, Mistake] = {
    "wrong type": in_engine("batch_size: many", 50, "batch_size"),
    "too many streams": in_cell("target_qps: 54, run: {streams: 1025}", 52, ".run.streams"),
    "too many threads": in_cell("target_qps: 54, run: {threads: 4097}", 52, ".run.threads"),
    "group for a value": in_cell("target_qps: {rate: 54}", 33, ".target_qps"),
    "unknown key": in_cell("target_qsp: 54", 21, ".target_qsp"),
    "key in the wrong group": in_benchmark("backend: onnxruntime", 7, "backend"),
    "bad division": (replaced("    open:", "    opened:"), 17, 5, "spec.divisions.opened"),
    "YAML syntax": (replaced("{name: acme}", "{name: acme"), 3, 11, ""),
    "unclosed quote": (VALID + '    closed: "\n', 21, 13, ""),
    "missing unit": (replaced("min_duration: 0", "min_duration: 600"), 8, 27, "spec.defaults.short.min_duration"),
    "unset variable of the tree, which is written to": (
        replaced("submitter: ACME", "submitter: ACME\n  tree: '${DATA}/x'"),
        7,
        9,
        "spec.tree",
    ),
    "circle of defaults": (replaced("{min_duration: 0}", "{use: quick}"), 8, 18, "spec.defaults.short.use"),
    "defaults that use themselves": (replaced("use: [short]", "use: [quick]"), 9, 18, "spec.defaults.quick.use"),
    "empty file": ("", 1, 1, ""),
    "only comments": ("# nothing\n\n", 1, 1, ""),
    "a list": ("- a\n", 1, 1, ""),
    "no apiVersion": (VALID.replace("apiVersion: mlperf-reconciler/v1\n", ""), 1, 1, "apiVersion"),
    "another apiVersion": (VALID.replace("r/v1", "r/v9"), 1, 13, "apiVersion"),
    "missing setting": (replaced("  round: v6.1\n", ""), 4, 1, "spec.round"),
    "undeclared system": (replaced("      box:\n", "      bx:\n"), 18, 7, "spec.divisions.open.bx"),
    "undeclared benchmark": (replaced("        digits:\n", "        digit:\n"), 19, 9, "spec.divisions.open.box.digit"),
    "undeclared block": (replaced("use: [short]", "use: [shrt]"), 9, 19, "spec.defaults.quick.use"),
    "no backend": (replaced("backend: onnxruntime, ", ""), 20, 11, OFFLINE),
    "unknown option": in_engine("options: {graph_optimisation: all}", 68, "options.graph_optimisation"),
    "wrong choice": in_engine("options: {graph_optimization: al}", 68, "options.graph_optimization"),
    "precision": in_engine("precision: bf16", 49, "precision"),
    "weights of fewer bits than a backend reads": (
        replaced(ENGINE, "engine: {backend: tensorrt, batch_size: 1}\n      model: {settings: {weights: int4}}"),
        16,
        35,
        f"{DIGITS}.model.settings.weights",
    ),
    "int8 asked of an engine that takes it from the model": in_engine("precision: int8", 49, "precision"),
    "code with an endless name": in_benchmark(f"code: {'x' * 5000}.py", 13, "code"),
    "control codes": in_cell('target_qps: "\\e[31m"', 33, ".target_qps"),
    "contradiction": in_cell("max_query_count: 3, min_query_count: 4", 58, ".min_query_count"),
    "secret value": in_benchmark("model: {settings: {note: hf_abcdefghijklmnopqrstuvwxyz}}", 32, "model.settings.note"),
    "secret name": in_benchmark("model: {settings: {api_key: abc}}", 35, "model.settings.api_key"),
    "merge key of no group": in_cell("<<: 54", 21),
    "second document": (VALID + "---\na: 1\n", 21, 1, ""),
    "unknown alias": in_cell("target_qps: *x", 33, ".target_qps"),
    "alias of itself": (replaced("  defaults:\n", "  defaults: &d\n    loop: *d\n"), 8, 11, "spec.defaults.loop"),
    "tag": in_cell("target_qps: !!float 54", 33, ".target_qps"),
    "control character": (replaced("ACME", "AC\x07ME"), 6, 16, ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_spec_is_reported_where_what_and_how_to_fix(name: str, tmp_path: Path) -> None:
    text, line, column, path = BROKEN[name]
    (problem,) = problems_in(tmp_path, main=text)
    assert (problem.file, problem.line, problem.column, problem.path) == ("main.yaml", line, column, path), str(problem)
    assert problem.message
    assert problem.fix


def test_a_value_set_twice_names_both_files(tmp_path: Path) -> None:
    second = HEADER + "spec:\n  submitter: ACME\n  systems:\n    other: {category: edge, status: rdi}\n"
    (problem,) = problems_in(tmp_path, main=VALID, second=second)
    assert str(problem).startswith("second.yaml:4:14: spec.submitter: ")
    assert "main.yaml:6" in problem.message


def test_a_missing_file_offers_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "quickstart.yaml").write_text(VALID)
    (problem,) = catch_problems(load, [tmp_path / "quikstart.yaml"], tmp_path, {})
    assert (problem.file, problem.line, problem.column) == ("quikstart.yaml", 1, 1)
    assert "quickstart.yaml" in problem.fix


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
    (problem,) = catch_problems(load, [tmp_path / "main.yaml"], tmp_path, {})
    assert (problem.line, problem.column) == (line, column)
    assert part in problem.message


def test_a_file_that_cannot_be_read_hides_no_other_problem_and_invents_none(tmp_path: Path) -> None:
    systems = HEADER + "spec:\n  systems: {box: [\n"
    main = replaced("  systems:\n    box: {category: edge, status: available}\n", "").replace("54", "fast")
    found = [(problem.file, problem.line) for problem in problems_in(tmp_path, main=main, systems=systems)]
    assert found == [("main.yaml", 18), ("systems.yaml", 5)]


def test_a_secret_is_not_repeated(tmp_path: Path) -> None:
    secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    for text in (replaced("54", secret), replaced("target_qps", secret), replaced("ACME", f"https://me:{secret}@host")):
        assert secret not in "\n".join(map(str, problems_in(tmp_path, main=text)))


SPEC = give_head("""\
  documents: {calibration: docs/calibration.md}
  defaults:
    long:
      min_duration: 600 s
  systems:
    box:
      category: edge
      status: available
      hardware: {accelerator: NVIDIA L4, count: 1}
      description:
%s
        cooling: air
  benchmarks:
    resnet:
      code: resnet50
      use: [long]
      model: {path: "${NETS}/resnet50.onnx"}
      engine: {backend: tensorrt, precision: fp16, batch_size: 16}
      measurements: {weight_data_types: fp16, weight_transformations: none}
    llama2-70b-99.9:
      harness:
        command: [python, run.py, --user-conf, "{user_conf}", --logs, "{run_dir}"]
        code: ours
        score: {command: [python, score.py, "{accuracy_log}"]}
      measurements: {input_data_types: int32, weight_data_types: fp8, weight_transformations: quantization}
      model: {starting_weights_filename: llama2.safetensors, retraining: "No"}
  divisions:
    closed:
      box:
        resnet:
          SingleStream: {target_latency: 2 ms}
          MultiStream: {target_latency: 5 ms}
          Offline: {target_qps: 54}
    open:
      box:
        llama2-70b-99.9:
          Server: {target_qps: 5}
""")
_FIELDS = [field.name for field in load_ruleset("v6.1").system_fields]
_FOLLOWING = ("division", "submitter", "status", "system_type", "cooling")
SPEC %= "\n".join(f'        {name}: "1"' for name in _FIELDS if name not in _FOLLOWING)

MISTAKES = YAML(typ="safe").load(Path(__file__).with_name("mistakes.yaml"))


def complain(text: str, root: Path) -> list[Problem]:
    """What `validate` names: problems, else the gaps of a valid spec."""
    (root / "ours").mkdir(exist_ok=True)
    source = decode(text.encode(), "main.yaml")
    sources, problems = ([source], []) if isinstance(source, Source) else ([], [source])
    reading = read_texts(sources, root, {"NETS": "/mnt/somewhere/nets", "HOME": "/home/somebody"}, problems)
    try:
        declared, ruleset = check_reading(reading, load_ruleset)
    except SpecError as error:
        return error.problems
    return [*find_gaps(declared, ruleset), *find_absent_code(declared, root)[0]]


def test_without_a_mistake_nothing_is_said(tmp_path: Path) -> None:
    assert complain(SPEC, tmp_path) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_where_it_is_with_its_fix(name: str, tmp_path: Path) -> None:
    before, after = MISTAKES[name]["before"], MISTAKES[name]["after"]
    assert SPEC.count(before) == 1, "the replacement must be about one place"
    marked = SPEC.replace(before, after)
    found = complain(marked.replace("§", ""), tmp_path)
    if "§" in after:
        head = marked[: marked.index("§")]
        place = head.count("\n") + 1, len(head) - head.rfind("\n")
        assert [(problem.line, problem.column) for problem in found] == [place]
    assert len(found) == 1
    assert found[0].message
    assert MISTAKES[name].get("name", "") in found[0].fix


@pytest.mark.parametrize(
    ("written", "meant"),
    [("resnt", "resnet"), ("llama3-8b", "llama3.1-8b"), ("resnet-99.9", "resnet"), ("retinanet-99", "retinanet")],
)
def test_a_benchmark_without_code_gets_the_nearest_name_of_a_round(written: str, meant: str, tmp_path: Path) -> None:
    spec = SPEC.replace("      code: resnet50\n", "").replace("resnet:", f"{written}:")
    found = complain(spec, tmp_path)
    assert len(found) == 1
    assert f"write {meant}," in found[0].fix


def test_what_a_command_calibrated_has_to_be_written_down(tmp_path: Path) -> None:
    """Of our own harness's runs the records say it."""
    spec = SPEC.replace("  documents: {calibration: docs/calibration.md}\n", "")
    assert complain(spec, tmp_path) == []
    harness = spec[spec.index("      harness:\n") : spec.index("      measurements: {input")]
    commanded = spec.replace("      code: resnet50\n", harness, 1)
    (found,) = (problem for problem in complain(commanded, tmp_path) if problem.path == "spec.documents")
    assert "no calibration document" in found.message
    assert "documents: {calibration" in found.fix


# Fields of a stub, and of the configuration, in the guides of NVIDIA's submissions v2.1 and v5.1.
STUB = """
input_dtype tensor_path active_sms bert_opt_seqlen buffer_manager_thread_count cache_file coalesced_tensor
deque_timeout_usec graph_specs graphs_max_seqlen instance_group_count max_queue_delay_usec model_path
offline_expected_qps preferred_batch_size request_timeout_usec run_infer_on_copy_streams soft_drop use_jemalloc
use_spin_wait workspace_size use_graphs numa_config gpu_batch_size use_small_tile_gemm_plugin
gemm_plugin_fairshare_cache_size gpu_offline_expected_qps server_target_qps
"""


@pytest.mark.parametrize("where", ["cell", "engine", "option"])
def test_each_field_of_the_guides_stubs_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(schema, "build_submission_schema", cache(schema.build_submission_schema))  # once, not per field
    fields = ", ".join(f"{name}: 1" for name in STUB.split())
    text, *_ = {
        "cell": in_cell(fields, 0),
        "engine": in_engine(f"batch_size: 1, {fields}", 0, ""),
        "option": in_engine(f"batch_size: 1, options: {{{fields}}}", 0, ""),
    }[where]
    problems = problems_in(tmp_path, main=text)
    assert sorted(problem.path.rpartition(".")[2] for problem in problems) == sorted(STUB.split())
    for fix in (problem.fix for problem in problems if not problem.fix.startswith("remove it: ")):
        written = re.search(r"'([a-z_]+: .*?)'(?!\w)", fix)
        if written is None:
            assert find_schema_node(f"spec.benchmarks.{fix.removeprefix('write ')}").path, fix
            continue
        for path in list_paths(YAML(typ="safe").load(written[1].replace("…", "1"))):
            assert find_schema_node(f"spec.benchmarks.NAME.{path}").path.endswith(path), fix


def test_the_fewest_samples_of_offline_are_its_fewest_queries(tmp_path: Path) -> None:
    """LoadGen takes them from min_query_count there; the guides name what it logs."""
    (problem,) = problems_in(tmp_path, main=replaced("target_qps: 54", "min_sample_count: 24576"))
    assert "'min_query_count: …'" in problem.fix


def list_paths(value: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, below in value.items():
        if isinstance(below, Mapping):
            yield from list_paths(below, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def test_settings_that_a_round_fixes_are_answered() -> None:
    for setting in SETTINGS:
        if setting.ruled:
            assert explain_foreign(setting.name) is not None
            assert is_field(setting.name)
        if setting.conf_name:
            assert setting.name in (explain_foreign(setting.conf_name) or ("", ""))[1]
