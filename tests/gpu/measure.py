"""Measure a shape: ``python -m tests.gpu.measure SHAPE [--backend B] [--batch N] [--only PART,…] [--rounds N] [--json
FILE]``.

- offline: LoadGen's Offline samples/s in runs of $SECONDS_EACH (6) seconds, relative to the bare engine (same batch,
  input in device memory, back-to-back enqueues), with samples in pinned host memory and in device memory; processor
  seconds per 100k samples.
- server: the highest rate that is VALID within the shape's latency limit, relative to Offline; $SERVER_WAYS replaces
  the tried configurations.
- single: SingleStream's median latency minus that of the bare engine.
- volumes: Offline samples/s of samples with several calls of the engine each, over complete permutations of them that
  take about $SECONDS_EACH (62) seconds, relative to the bare engine; only on request.
- plain: the loop that a user would write, Offline and SingleStream.
- scaling: Offline on all devices relative to the sum of single devices; only on request.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from harness.machine.facts import list_accelerators
from tests.gpu.cases import SHAPES, Case
from tests.gpu.parts import Figures, add_options, measure_parts
from tests.gpu.searching import find_highest

SECONDS = 6.0  # of the bare engine
TUNED = 0.9  # of Offline: the rate at which ways to serve are compared
EVIDENCE = {"start_from_device": True, "start_from_device_evidence": "a benchmark of the harness itself"}


def offline_run(case: Case, count: int, **settings: Any) -> Figures:
    conf = {"min_duration": 0, "min_query_count": count, "target_qps": 1}
    conf |= {"sample_concatenate_permutation": 1} if case.shape.volumes else {}
    log = case.run("Offline", conf, **settings)
    return {
        "rate": float(log["result_samples_per_second"]),
        "cpu": log["telemetry.processor_seconds"],
        "telemetry": {name: value for name, value in log.items() if name.startswith("telemetry.")},
    }


def offline(case: Case, rounds: int) -> Figures:
    """Run the harness between two runs of the bare engine, since a device at its power limit slows down as it warms
    up."""
    batch = case.shape.batch
    expected = bare_rate(case, 1)
    seconds = float(os.environ.get("SECONDS_EACH", SECONDS))
    count = max(4 * batch, round(expected * seconds / batch) * batch)
    bare, found = [bare_rate(case, SECONDS)], []
    for _ in range(rounds):
        for name, options in (("host", {}), ("device", EVIDENCE)):
            run = offline_run(case, count, streams=1, **options)
            bare.append(bare_rate(case, SECONDS))
            found.append({"name": name, **run, "over_bare": round(2 * run["rate"] / (bare[-2] + bare[-1]), 4)})
    of = {name: [run for run in found if run["name"] == name] for name in ("host", "device")}
    cpu = statistics.median(run["cpu"] for run in of["host"])
    rates = {name: statistics.median(run["rate"] for run in runs) for name, runs in of.items()}
    return {
        "batch": batch,
        "samples": count,
        "rates": {name: round(rate, 1) for name, rate in {"bare": statistics.median(bare), **rates}.items()},
        "bare": [round(rate, 1) for rate in bare],
        "runs": [{k: v for k, v in run.items() if k != "telemetry"} for run in found],
        **{f"{name}_over_bare": statistics.median(run["over_bare"] for run in runs) for name, runs in of.items()},
        "cpu_seconds_per_100k_samples": round(cpu / count * 1e5, 3),
        "telemetry": of["host"][-1]["telemetry"],
    }


def volumes(case: Case, rounds: int) -> Figures:
    shape = case.shape
    bare = [bare_rate(case, SECONDS) / shape.calls]
    seconds = float(os.environ.get("SECONDS_EACH", "62"))
    count = max(1, math.ceil(bare[0] * seconds / shape.volumes)) * shape.volumes
    runs = [offline_run(case, count) for _ in range(rounds)]
    bare.append(bare_rate(case, SECONDS) / shape.calls)
    rate = statistics.median(run["rate"] for run in runs)
    return {"samples": count, "rate": rate, "over_bare": round(2 * rate / sum(bare), 4), "bare": bare, "runs": runs}


def bare_rate(case: Case, seconds: float) -> float:
    return float(case.bare("rate", seconds=seconds)["rate"])


def server_run(case: Case, rate: float, seconds: float, how: Sequence[int], **options: Any) -> Figures:
    """``how``: batch size, streams, lanes, queue delay in microseconds."""
    conf = {
        "min_duration": int(1000 * seconds),
        "min_query_count": 1000,
        "target_qps": round(rate, 1),
        "target_latency": case.shape.bound,
        "coalesce_queries": 1,
    }
    names = ("batch_size", "streams", "lanes", "queue_delay_us")
    log = case.run("Server", conf, **dict(zip(names, how, strict=True)), **options)
    latency = {name: round(log[f"result_{name}.00_percentile_latency_ns"] / 1e6, 2) for name in (50, 99)}
    return {
        "target_qps": round(rate, 1),
        "how": list(how),
        "verdict": log["result_validity"],
        "completed": round(log["result_completed_samples_per_sec"], 1),
        "p50_ms": latency[50],
        "p99_ms": latency[99],
        "cpu_seconds": log["telemetry.processor_seconds"],
    }


def server(case: Case, rounds: int) -> Figures:
    """Choose the best configuration of the shape, then use ``find_highest``. A run of three times the duration confirms
    the reported rate."""
    del rounds
    ways = chosen_ways(case)
    if not ways:
        return {"not_measured": f"no way to serve {case.name} by {case.backend} is set"}
    whole = float(offline_run(case, round(4 * bare_rate(case, 1)), streams=1)["rate"])
    tuned = [server_run(case, TUNED * whole, 4, how) for how in ways] if len(ways) > 1 else []
    how = min(tuned, key=lambda run: (run["verdict"] != "VALID", run["p99_ms"]))["how"] if tuned else list(ways[0])
    found = find_highest(lambda rate, seconds: server_run(case, rate, seconds, how), whole, seconds=10, confirming=30)
    return {
        "bound_ms": case.shape.bound,
        "offline_rate": whole,
        "confirmed": found["tried"][-1] if found["over_offline"] else None,
        "tuned": tuned,
        **found,
    }


def chosen_ways(case: Case) -> Sequence[Sequence[int]]:
    """Return the configurations of the shape, or those of $SERVER_WAYS, such as "44,1,2,25000 66,1,2,38000"."""
    given = [[int(number) for number in way.split(",")] for way in os.environ.get("SERVER_WAYS", "").split()]
    return given or case.shape.server.get(case.backend, ())


def single(case: Case, rounds: int) -> Figures:
    """Run the harness between two runs of the bare engine."""
    bare, runs = [case.bare("latency", batch=1)], []
    count = min(3000, max(200, round(SECONDS / min(bare[0].values()) * 1e6)))
    conf = {"min_duration": 2000, "min_query_count": count, "target_latency": 0.5}
    for _ in range(rounds):
        log = case.run("SingleStream", conf, batch_size=1, streams=1)
        bare.append(case.bare("latency", batch=1))
        least = statistics.mean(min(item.values()) for item in bare[-2:])
        median = log["result_50.00_percentile_latency_ns"] / 1e3
        runs.append({"harness": round(median, 1), "bare": round(least, 1), "added_us": round(median - least, 1)})
    return {
        "added_us": round(statistics.median(run["added_us"] for run in runs), 1),
        "runs": runs,
        "bare": [{name: round(value, 1) for name, value in item.items()} for item in bare],
    }


def plain(case: Case, rounds: int) -> Figures:
    del rounds
    whole = bare_rate(case, 1)
    count = max(4 * case.shape.batch, round(whole))
    log = case.plain("Offline", count)
    latency = case.plain("SingleStream", 2000)
    return {
        "offline_rate": round(float(log["result_samples_per_second"]), 1),
        "over_bare": round(float(log["result_samples_per_second"]) / whole, 4),
        "single_stream_median_us": round(latency["result_50.00_percentile_latency_ns"] / 1e3, 1),
    }


def scaling(case: Case, rounds: int) -> Figures:
    """Return Offline on all devices, relative to the sum of each device's own rate, since devices differ in speed."""
    devices = len(list_accelerators())
    batch = case.shape.batch
    count = round(bare_rate(case, 1) * SECONDS / batch) * batch

    def rate(number: int, visible: str = "") -> float:
        with environment("CUDA_VISIBLE_DEVICES", visible):
            return float(offline_run(case, count * number, streams=1, devices=number)["rate"])

    measured = []
    for _ in range(rounds):
        alone = [rate(1, str(index)) for index in range(devices)]
        measured.append({"alone": alone, "together": rate(devices)})
    return {
        "devices": devices,
        "ratio": round(statistics.median(item["together"] / sum(item["alone"]) for item in measured), 4),
        "over_the_first": round(
            statistics.median(item["together"] / item["alone"][0] / devices for item in measured), 4
        ),
        "rounds": measured,
    }


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """Set a variable for child processes; "" leaves it unchanged."""
    before = os.environ.get(name)
    if value:
        os.environ[name] = value
    try:
        yield
    finally:
        if value and before is None:
            del os.environ[name]
        elif value:
            os.environ[name] = str(before)


PARTS: dict[str, Callable[[Case, int], Figures]] = {
    "offline": offline,
    "single": single,
    "volumes": volumes,
    "plain": plain,
    "server": server,
    "scaling": scaling,
}
USUAL = ("offline", "single", "plain", "server")


def engine_facts(case: Case) -> Figures:
    document = json.loads((case.engine / "engine.json").read_text())
    inspector = document["settings"].get("tensorrt", {}).get("inspector", {})
    return {"version": document["version"], "layers": {k: v for k, v in inspector.items() if k != "precisions"}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--batch", type=int, default=0, help="instead of the shape's own")
    parser.add_argument("--rounds", type=int, default=2)
    add_options(parser, PARTS, USUAL)
    options = parser.parse_args()
    case = Case(options.shape, options.backend, options.batch)
    began = time.monotonic()
    facts = {"engine": engine_facts(case), "build_seconds": round(time.monotonic() - began, 1)}
    parts = {name: partial(part, case, options.rounds) for name, part in PARTS.items()}
    measure_parts(
        "tests.gpu.measure",
        f"{options.shape} {options.backend}{f' {options.batch}' * bool(options.batch)}",
        parts,
        options,
        facts,
    )


if __name__ == "__main__":
    main()
