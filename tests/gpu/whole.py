"""Drive complete passes of built-in benchmarks: ``python -m tests.gpu.whole [--size S] [--only BENCHMARK,…] [--json
FILE]``.

Each pass makes engine, accuracy run, performance run, compliance tests and tree in the closed division, from data that
``rehearse`` generates; a second pass must find nothing to do. Networks of ``true`` are as deep as the published ones;
the language model's is tests.gpu.cyclic_llama. An interrupted pass continues in the same folder.
BERT computes in fp16: the F1 of random weights in fp8 is below the round's.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from harness.contract import Progress
from reconciler.rehearse.rehearsal import RehearsalRequest, choose_benchmarks, prepare_rehearsal
from tests.benchmarks.children import reconcile
from tests.gpu.cases import WORK
from tests.gpu.language import SHAPES
from tests.gpu.parts import SECONDS, Figures, make_parser, measure_parts


class Whole(NamedTuple):
    """``settings``: of the benchmark's entry in the spec. ``cells``: scenario -> settings, of which ``target_qps`` is
    for true networks. ``small``: the settings for small networks on processors, those of the rehearsal if it has none;
    ``rate`` and ``queries``: of their cells. ``category``: of the system; all scenarios that it requires are cells.
    ``prepare``: replaces generated files of ``true`` by others: folder of the data, folder of the models, seed."""

    samples: int
    settings: Mapping[str, Any]
    cells: Mapping[str, Mapping[str, Any]]
    small: Mapping[str, Any] = {}
    rate: float = 20
    queries: int = 300
    category: str = "datacenter"
    prepare: Callable[[Path, Path, int], None] | None = None


def _write_llama(data: Path, models: Path, seed: int) -> None:
    from tests.gpu.cyclic_llama import write_articles, write_checkpoint  # which imports PyTorch

    shape = SHAPES["llama3.1-8b-static"]
    write_articles(data, count=1024, mean=shape.mean, longest=shape.longest, answer=shape.answer, seed=seed)
    words = len(json.loads((data / "tokenizer.json").read_bytes())["model"]["vocab"])
    write_checkpoint(models / "Llama-3.1-8B-Instruct", shape.config, words, seed=seed)


_FP8 = {"format": "pt2", "precision": "fp8"}
# The small layers are too narrow for fp8.
_PROGRAM = {"engine": {"backend": "pytorch", "batch_size": 64}, "model": {"settings": {"format": "pt2"}}}
BENCHMARKS = {
    "dlrm-v2-99": Whole(
        512,
        {
            "model": {"settings": _FP8},
            "dataset": {"settings": {"dtype": "float16"}},
            "engine": {
                "backend": "pytorch-cuda",
                "precision": "fp8",
                "batch_size": 65_536,
                "options": {"half_inputs": True},
            },
            "run": {"streams": 1},
        },
        {"Offline": {"target_qps": 88_000}, "Server": {"target_qps": 50_000, "engine": {"batch_size": 32_768}}},
        _PROGRAM,
    ),
    "bert-99": Whole(
        256,
        {
            "model": {"settings": {"format": "pt2"}},
            "engine": {"backend": "pytorch-cuda", "precision": "fp16", "batch_size": 640},
        },
        {
            "Offline": {"target_qps": 3900, "run": {"options": {"tokens": 98_304}}},
            "SingleStream": {"target_latency": "1600 us"},
        },
        _PROGRAM,
        category="edge",
    ),
    "resnet": Whole(
        1024,
        {
            "dataset": {"settings": {"dtype": "float16"}},
            "engine": {
                "backend": "onnxruntime-cuda",
                "precision": "fp16",
                "batch_size": 256,
                "options": {"half_inputs": True},
            },
            # With two streams, each batch takes twice as long.
            "run": {"streams": 1, "options": {"capture": True, "fused_bias": True}},
        },
        {
            "Offline": {"target_qps": 15_000},
            "Server": {
                "target_qps": 12_000,
                "engine": {"batch_size": 64},
                "run": {"queue_delay": "3200 us"},
            },
        },
        rate=100,
        queries=1200,
    ),
    "stable-diffusion-xl": Whole(
        16,
        {
            "engine": {"backend": "diffusers", "precision": "fp8", "batch_size": 8},
            "run": {"options": {"compile": "default", "channels_last": True}},
        },
        # The round asks for 5,000 images: 42 minutes of each run. Server would need 459 queries: five minutes of each.
        {
            "Offline": {"target_qps": 2, "min_query_count": 130},
            "SingleStream": {"target_latency": "1100 ms", "min_query_count": 70, "engine": {"batch_size": 1}},
        },
        {"engine": {"backend": "diffusers", "batch_size": 2}},
        rate=2,
        queries=20,
        category="edge",
    ),
    "llama3.1-8b": Whole(
        32,
        {
            "engine": {
                "backend": "vllm",
                "precision": "fp8",
                "options": {"kv_cache": "fp8", "context": 2816, "tensor_parallel": 1},
            },
            "run": {"options": {"sequences": 1024, "batched_tokens": 8192, "memory_percent": 92}},
        },
        {
            "Offline": {"target_qps": 64, "min_query_count": 4200},
            "Server": {"target_qps": 55, "min_query_count": 1024},
        },
        queries=500,
        prepare=_write_llama,
    ),
}


def declare(name: str, size: str, spec: str) -> str:
    """Return the spec of a rehearsal with the engine and the cells of ``name``."""
    yaml, whole = YAML(), BENCHMARKS[name]
    document = yaml.load(spec)
    benchmark = document["spec"]["benchmarks"][name]
    for field, settings in (whole.settings if size == "true" else whole.small).items():
        benchmark[field] = (benchmark.get(field) or {}) | settings if field in ("model", "dataset") else dict(settings)
    system = document["spec"]["divisions"]["closed"]
    (cells,) = (entry[name] for entry in system.values())
    cells.clear()
    for scenario, settings in whole.cells.items():
        cell = {**settings, "min_duration": f"{SECONDS:g} s"} if size == "true" else {"min_duration": 0}
        if size != "true" and "target_qps" in settings:
            cell |= {"target_qps": whole.rate, "min_query_count": whole.queries}
        cells[scenario] = cell
    text = StringIO()
    yaml.dump(document, text)
    return text.getvalue()


def drive(name: str, size: str, seed: int) -> Figures:
    """Generate, drive a pass and a second one, and return their seconds, plans and cells."""
    folder, whole = WORK / f"whole-{size}-{name}", BENCHMARKS[name]
    asked = RehearsalRequest(
        round_name="v5.1",
        category=whole.category,
        size="full" if size == "true" and whole.prepare is None else "small",
        samples=whole.samples,
        seed=seed,
    )
    began = time.monotonic()
    chosen = choose_benchmarks([name]).benchmarks
    prepare_rehearsal(folder, chosen, asked, _ignore, partial(declare, name, size))
    if size == "true" and whole.prepare is not None:
        (data,) = (folder / "generated").glob("*/data")
        if not (replaced := data.with_name("replaced")).exists():
            whole.prepare(data, data.with_name("models"), seed)
            replaced.touch()
    figures: Figures = {"generating": round(time.monotonic() - began, 1), "passes": []}
    # One scenario after the other, so that a pass that is interrupted has completed some.
    for left_out in [*_leave_out_later(list(whole.cells)), []]:
        began = time.monotonic()
        done = reconcile(folder, "--json", "--commit", *left_out)
        report = json.loads(done.stdout)
        if "problems" in report:
            raise RuntimeError(str(report["problems"]))
        took = round(time.monotonic() - began, 1)
        figures["passes"].append({"options": left_out, "rc": done.returncode, "seconds": took})
        print(done.stderr[-2500:], file=sys.stderr, flush=True)
    figures["status"] = json.loads(reconcile(folder, "status", "--json").stdout)
    figures["steps"] = report
    return figures


def _leave_out_later(scenarios: Sequence[str]) -> Iterator[list[str]]:
    for number in range(1, len(scenarios) + 1):
        yield [part for scenario in scenarios[number:] for part in ("--exclude", f"scenario={scenario}")]


def _ignore(_code: str, _progress: Progress) -> None:
    pass


def main() -> None:
    parser = make_parser(__doc__, BENCHMARKS, BENCHMARKS)
    parser.add_argument("--size", choices=("true", "small"), default="true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    parts = {name: partial(drive, name, options.size, options.seed) for name in BENCHMARKS}
    measure_parts("tests.gpu.whole", f"whole-{options.size}", parts, options)


if __name__ == "__main__":
    main()
