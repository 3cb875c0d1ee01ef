"""The figures: ``python -m tests.gpu.measure SHAPE [--backend B] [--only PART,…] [--rounds N] [--json FILE]``.

- offline: LoadGen's Offline samples/s over the bare engine's (same batch, input in device memory, enqueues back to
  back), with samples in pinned host memory and in device memory; processor seconds per 100k samples.
- server: the highest rate that is VALID within the shape's latency bound, over Offline samples/s.
- single: SingleStream latency at the median less that of the bare engine.
- plain: the loop that a user would write, Offline and SingleStream.
- scaling: Offline on all devices over as many times one of them; only where it is asked for.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.machine import accelerators
from tests.gpu.cases import SHAPES, Case

SECONDS = 6.0
EVIDENCE = {"start_from_device": True, "start_from_device_evidence": "a benchmark of the harness itself"}
Figures = dict[str, Any]


def offline_run(case: Case, count: int, **settings: Any) -> Figures:
    conf = {"min_duration": 0, "min_query_count": count, "target_qps": 1}
    log = case.run("Offline", conf, **settings)
    return {
        "rate": float(log["result_samples_per_second"]),
        "cpu": log["telemetry.processor_seconds"],
        "joules": log.get("telemetry.gpu.joules_per_sample_unofficial"),
    }


def offline(case: Case, rounds: int) -> Figures:
    batch = case.shape.batch
    expected = float(case.bare("rate", seconds=1)["rate"])
    count = max(4 * batch, round(expected * SECONDS / batch) * batch)
    kinds: dict[str, Callable[[], Figures]] = {
        "bare": lambda: {"rate": float(case.bare("rate", seconds=SECONDS)["rate"])},
        "bare_graph": lambda: {"rate": float(case.bare("rate", seconds=SECONDS / 2, graph=True)["rate"])},
        "host": lambda: offline_run(case, count, streams=1),
        "host_2_streams": lambda: offline_run(case, count, streams=2),
        "device": lambda: offline_run(case, count, streams=1, **EVIDENCE),
    }
    if case.backend != "tensorrt":
        kinds.pop("bare_graph")
    measured: list[dict[str, Figures]] = [{name: take() for name, take in kinds.items()} for _ in range(rounds)]
    middle = {name: statistics.median(item[name]["rate"] for item in measured) for name in kinds}
    cpu = statistics.median(item["host"]["cpu"] for item in measured)
    return {
        "batch": batch,
        "samples": count,
        "rates": {name: round(value, 1) for name, value in middle.items()},
        "rounds": [{name: round(item[name]["rate"], 1) for name in kinds} for item in measured],
        "host_over_bare": middle_ratio(measured, "host"),
        "host_2_streams_over_bare": middle_ratio(measured, "host_2_streams"),
        "device_over_bare": middle_ratio(measured, "device"),
        "cpu_seconds_per_100k_samples": round(cpu / count * 1e5, 3),
        "joules_per_sample_unofficial": measured[-1]["host"]["joules"],
    }


def middle_ratio(measured: list[dict[str, Figures]], name: str) -> float:
    return round(statistics.median(item[name]["rate"] / item["bare"]["rate"] for item in measured), 4)


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
    """The best of the shape's ways at a high rate, then bisection in runs of a few seconds, then one longer run."""
    whole = float(case.bare("rate", seconds=2)["rate"])
    tuned = [server_run(case, 0.88 * whole, 2.5, how) for how in case.shape.server]
    best = min(tuned, key=lambda run: (run["verdict"] != "VALID", run["p99_ms"]))
    how = best["how"]
    low, high = (0.88, 1.02) if best["verdict"] == "VALID" else (0.5, 0.88)
    tried = []
    for _ in range(3 + rounds):
        share = (low + high) / 2
        tried.append(server_run(case, share * whole, 4, how))
        low, high = (share, high) if tried[-1]["verdict"] == "VALID" else (low, share)
    confirmed = server_run(case, low * whole, 10, how)
    return {
        "bound_ms": case.shape.bound,
        "bare_rate": round(whole, 1),
        "highest_valid_qps": round(low * whole, 1),
        "over_bare": round(low, 4),
        "confirmed": confirmed,
        "tuned": tuned,
        "tried": tried,
    }


def single(case: Case, rounds: int) -> Figures:
    measured = []
    for _ in range(rounds):
        bare = case.bare("latency", batch=1)
        conf = {"min_duration": 2000, "min_query_count": 3000, "target_latency": 0.5}
        log = case.run("SingleStream", conf, batch_size=1, streams=1)
        measured.append({**bare, "harness": log["result_50.00_percentile_latency_ns"] / 1e3})
    best = [min(v for name, v in item.items() if name != "harness") for item in measured]
    added = statistics.median(item["harness"] - least for item, least in zip(measured, best, strict=True))
    return {"added_us": round(added, 1), "rounds": [{k: round(v, 1) for k, v in item.items()} for item in measured]}


def plain(case: Case, rounds: int) -> Figures:
    del rounds
    whole = float(case.bare("rate", seconds=1)["rate"])
    count = max(4 * case.shape.batch, round(whole))
    log = case.plain("Offline", count)
    latency = case.plain("SingleStream", 2000)
    return {
        "offline_rate": round(float(log["result_samples_per_second"]), 1),
        "over_bare": round(float(log["result_samples_per_second"]) / whole, 4),
        "single_stream_median_us": round(latency["result_50.00_percentile_latency_ns"] / 1e3, 1),
    }


def scaling(case: Case, rounds: int) -> Figures:
    """Offline on all devices over as many times one of them."""
    devices = len(accelerators())
    expected = float(case.bare("rate", seconds=1)["rate"])
    batch = case.shape.batch
    count = round(expected * SECONDS / batch) * batch

    def rate(number: int) -> float:
        return float(offline_run(case, count * number, streams=1, devices=number)["rate"])

    measured = [(rate(1), rate(devices)) for _ in range(rounds)]
    ratio = statistics.median(many / one / devices for one, many in measured)
    return {"devices": devices, "ratio": round(ratio, 4), "rounds": [[round(r, 1) for r in pair] for pair in measured]}


PARTS: dict[str, Callable[[Case, int], Figures]] = {
    "offline": offline,
    "single": single,
    "plain": plain,
    "server": server,
    "scaling": scaling,
}
USUAL = ("offline", "single", "plain", "server")


def engine_facts(case: Case) -> Figures:
    document = json.loads((case.engine / "engine.json").read_text())
    inspector = document["settings"].get("tensorrt", {}).get("inspector", {})
    return {"version": document["version"], "layers": {k: v for k, v in inspector.items() if k != "precisions"}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--backend", default="tensorrt")
    parser.add_argument("--only", default=",".join(USUAL))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    case = Case(options.shape, options.backend)
    began = time.monotonic()
    found: Figures = {"command": f"python -m tests.gpu.measure {' '.join(sys.argv[1:])}"}
    found |= {"engine": engine_facts(case), "build_seconds": round(time.monotonic() - began, 1)}
    for name in options.only.split(","):
        began = time.monotonic()
        try:
            found[name] = PARTS[name](case, options.rounds)
        except Exception as error:  # the other parts are still worth their time
            found[name] = {"failed": f"{type(error).__name__}: {str(error)[-1500:]}"}
        found[name]["seconds"] = round(time.monotonic() - began, 1)
        print(json.dumps({name: found[name]}), flush=True)
        if options.json:
            options.json.write_text(json.dumps({f"{options.shape} {options.backend}": found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
