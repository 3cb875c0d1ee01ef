"""A guide to size. Most files and functions stay well below these figures; the few above stand in the message."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.architecture.source import functions, modules

FILE_P90, FILE_MOST = 250, 450
FILE_LEAST = 25  # a file cut thinner hides the way; each exception has its reason
THIN = {
    "harness/backends/tensorrt/rtx.py": "one of the two products that bring the same API, under its own backend name",
    "harness/backends/tensorrt/standard.py": "one of the two products that bring the same API",
    "harness/benchmarks/llama3_1_8b_edge/rehearsal.py": "the same rows and network under the name of another file",
    "harness/benchmarks/command.py": "a benchmark is a module, and this one prepares nothing",
    "reconciler/diff/host_drift.py": "a kind of drift of its own, between runs and not within a cell",
}
FUNCTION_P90, FUNCTION_MOST = 30, 80


def test_files_stay_short() -> None:
    lines = {module.file: module.text.count("\n") for module in modules().values() if module.text.strip()}
    longest = _listed({file: count for file, count in lines.items() if count > FILE_P90})
    assert max(lines.values()) <= FILE_MOST, longest
    assert _p90(list(lines.values())) <= FILE_P90, longest


def test_no_file_is_cut_thin_without_a_reason() -> None:
    lines = {module.file: module.text.count("\n") for module in modules().values() if not module.is_package}
    assert {file for file, count in lines.items() if count < FILE_LEAST} == THIN.keys()


def test_functions_stay_short() -> None:
    lines = {f"{function.where} {function.name}": function.lines for function in functions()}
    longest = _listed({name: count for name, count in lines.items() if count > FUNCTION_P90})
    assert max(lines.values()) <= FUNCTION_MOST, longest
    assert _p90(list(lines.values())) <= FUNCTION_P90, longest


def _p90(counts: Sequence[int]) -> int:
    """The smallest count that at least 90 of 100 do not exceed."""
    return sorted(counts)[math.ceil(0.9 * len(counts)) - 1]


def _listed(counts: dict[str, int]) -> str:
    return "the longest:\n" + "\n".join(
        f"{n:5} {name}" for name, n in sorted(counts.items(), key=lambda item: -item[1])
    )
