"""DLRM-DCNv2 on Criteo 1 TB, multi-hot: which of a user's items are clicked, by the area under the ROC curve."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.benchmarks import copy_model
from harness.benchmarks.dlrm_v2.checkpoint import open_checkpoint, write_model
from harness.benchmarks.dlrm_v2.criteo import CriteoBenchmark, prepare_day, read_day
from harness.benchmarks.dlrm_v2.layers import Shape, find_shape, list_weights
from harness.benchmarks.sources import count_threads, is_rehearsal, require_source
from harness.contract import Counter
from harness.run.qsl import Arrays


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    source, threads = require_source(source, "day 23 of Criteo 1 TB"), count_threads(settings)
    prepare_day(read_day(source), settings, output, counter, threads=threads, whole=not is_rehearsal(source))


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    if source is None or not source.is_dir():
        copy_model(source, settings, inputs, output, counter)
        return
    checkpoint = open_checkpoint(source, list(list_weights(Shape())))
    write_model(checkpoint, find_shape(checkpoint.shapes), settings, output, counter)


def lower_program(
    path: Path, settings: Mapping[str, Any], samples: Arrays, counter: Counter, *, compare: int
) -> dict[str, Any]:
    from harness.benchmarks.dlrm_v2 import lowered

    return lowered.lower_program(path, settings, samples, counter, compare=compare)


class DlrmDcnV2(CriteoBenchmark):
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    lower_program = staticmethod(lower_program)


BENCHMARK = DlrmDcnV2()
