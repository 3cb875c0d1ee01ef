"""``score``: compute accuracy.txt from an accuracy log and the labels. It can be repeated without repeating the run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.benchmarks import ShowAnswers, load_benchmark
from harness.benchmarks.accuracy import AnswerLog, read_accuracy_log
from harness.child.digests import hash_code
from harness.contract import Counter, Result, ScoreRequest, as_evidence, as_notes
from harness.errors import HarnessError, require


def execute(request: ScoreRequest, _give_up: Callable[[BaseException], None]) -> Result:
    """Score. values: metrics, samples, missing (samples of the dataset without an answer), duplicates, contradictions,
    marks.
    """
    began = time.monotonic()
    counter = Counter(request.counter)
    counter.stage("scoring")
    benchmark = load_benchmark(request.benchmark)
    dataset = require(Path(request.inputs["dataset"]), "the dataset")
    log = read_accuracy_log(require(Path(request.accuracy_log), "the accuracy log"))
    total = len(next(iter(benchmark.load_samples(dataset).values())))
    if log.indices[-1] >= total:
        problem = f"the accuracy log has sample {log.indices[-1]}, but the dataset has {total}"
        raise HarnessError(problem, "input", "run accuracy again")
    output = Path(request.output)
    metrics = dict(benchmark.score(log, dataset, output))
    if not (output / "accuracy.txt").is_file():
        raise HarnessError("score() of the benchmark wrote no accuracy.txt", "input", "write it into the output folder")
    if request.shown_folder and benchmark.show_answers is not None:
        _show(benchmark.show_answers, log, request, output / request.shown_folder)
    counter.stage("done")
    return Result(
        done=True,
        seconds=time.monotonic() - began,
        values={
            "metrics": metrics,
            "samples": len(log.indices),
            "missing": total - len(log.indices),
            "duplicates": log.duplicates,
            "contradictions": log.contradictions,
            "marks": ["synthetic"] if benchmark.synthetic else [],
        },
        facts=as_evidence({"harness.code": hash_code(), "benchmark.code": benchmark.digest})
        | as_notes({"numpy.version": np.__version__}),
    )


def _show(show_answers: ShowAnswers, log: AnswerLog, request: ScoreRequest, folder: Path) -> None:
    """Show those samples that are in the log; in a rehearsal or a reduced dataset some are missing."""
    wanted = set(request.shown)
    chosen = [(index, data) for index, data in zip(log.indices.tolist(), log.data, strict=True) if str(index) in wanted]
    if chosen:
        folder.mkdir()
        show_answers(chosen, folder)
