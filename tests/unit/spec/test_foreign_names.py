"""Names that people bring from elsewhere: each is answered by what to write here, or by why nothing takes its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler.loadgen.settings import SETTINGS
from reconciler.rules.ruled_value import is_field
from reconciler.spec.schema import find_schema_node
from reconciler.spec.validation import explain_foreign
from tests.unit.spec.writing import problems_in, replaced

# Fields of a stub, and of the configuration, in the guides of NVIDIA's submissions v2.1 and v5.1.
STUB = """
input_dtype tensor_path active_sms bert_opt_seqlen buffer_manager_thread_count cache_file coalesced_tensor
deque_timeout_usec graph_specs graphs_max_seqlen instance_group_count max_queue_delay_usec model_path
offline_expected_qps preferred_batch_size request_timeout_usec run_infer_on_copy_streams soft_drop use_jemalloc
use_spin_wait workspace_size use_graphs numa_config gpu_batch_size use_small_tile_gemm_plugin
gemm_plugin_fairshare_cache_size gpu_offline_expected_qps server_target_qps
"""


@pytest.mark.parametrize("where", ["cell", "engine", "option"])
def test_each_field_of_the_guides_stubs_is_answered(tmp_path: Path, where: str) -> None:
    cell, engine = ("target_qps: 54", "engine: {backend: onnxruntime, batch_size: 1}")
    fields = ", ".join(f"{name}: 1" for name in STUB.split())
    text = {
        "cell": replaced(cell, fields),
        "engine": replaced(engine, f"engine: {{backend: onnxruntime, batch_size: 1, {fields}}}"),
        "option": replaced(engine, f"engine: {{backend: onnxruntime, batch_size: 1, options: {{{fields}}}}}"),
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
