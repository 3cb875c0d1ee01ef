"""Fuzz all readers of untrusted files: ``python -m tests.benchmarks.fuzz_readers [--json]``.

Uses the inputs of ``tests/unit/storage/test_fuzz_readers.py`` and ``tests/unit/harness/test_fuzz_datasets.py`` with
other seeds: by default a million, distributed so that each reader takes about the same time. If an input raises an
error that the reader's callers do not expect, its traceback and seed are printed and the run continues. Exits with 1 if
there was one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.harness import test_fuzz_datasets as datasets
from tests.unit.storage.test_fuzz_readers import READERS as OF_REPOSITORIES
from tests.unit.storage.test_fuzz_readers import Reader, fuzz

READERS: Mapping[str, Reader] = {**OF_REPOSITORIES, **datasets.READERS}
INPUTS = 1_000_000
CHUNK = 500  # inputs of one seed
FIRST_SEED = 1000  # the tests have those below


@dataclass
class Fuzzed:
    """``ended``: number of inputs that were read, and that were rejected by each error; ``failed``: seeds with an
    unexpected error."""

    reader: str
    inputs: int = 0
    seconds: float = 0.0
    ended: Counter[str] = field(default_factory=Counter)
    failed: list[int] = field(default_factory=list)


def share_inputs(inputs: int) -> dict[str, int]:
    """Return reader → number of inputs; slow readers get fewer."""
    whole = sum(1 / reader.cost for reader in READERS.values())
    return {name: max(1, round(inputs / whole / reader.cost)) for name, reader in READERS.items()}


def fuzz_reader(name: str, reader: Reader, inputs: int, first: int) -> Fuzzed:
    found, began = Fuzzed(name), time.process_time()
    for seed in range(first, first + -(-inputs // CHUNK)):
        count = min(CHUNK, inputs - found.inputs)
        with tempfile.TemporaryDirectory() as folder:
            try:
                found.ended.update(fuzz(reader, seed, count, Path(folder)))
            except Exception:
                found.failed.append(seed)
                print(f"{name}, seed {seed}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        found.inputs += count
    found.seconds = time.process_time() - began
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=INPUTS, help="of all readers together (default %(default)s)")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="the first one (default %(default)s)")
    parser.add_argument("--reader", choices=READERS, help="only this one, with the share it would have")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args()
    shares = share_inputs(given.inputs)
    results = []
    for name in [given.reader] if given.reader else READERS:
        results.append(fuzz_reader(name, READERS[name], shares[name], given.seed))
        if not given.json:
            show(results[-1])
    failed = sum(len(item.failed) for item in results)
    if given.json:
        print(json.dumps({"inputs": sum(item.inputs for item in results), "readers": [vars(r) for r in results]}))
    else:
        print(f"{sum(item.inputs for item in results):,} inputs, {failed} seeds with an input that ended otherwise")
    return 1 if failed else 0


def show(item: Fuzzed) -> None:
    ended = ", ".join(f"{count:,} {end}" for end, count in item.ended.most_common())
    print(f"{item.reader:26} {item.inputs:9,} inputs {item.seconds:7.1f} s  {ended}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
