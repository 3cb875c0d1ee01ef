"""Compare Qwen3-VL's messages and scores with the reference's.

    python -m tests.benchmarks.reference_qwen3_vl CHECKOUT PYTHON [--endpoints CHECKOUT PYTHON]

CHECKOUT is one of mlcommons/inference with the folder multimodal/qwen3-vl; PYTHON has the packages that it imports.
--endpoints adds those of mlcommons/endpoints, with another checkout and PYTHON. Products are a rehearsal's, read with
the library `datasets`. Answers are right, half right and random. Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks import qwen3_vl
from harness.benchmarks.accuracy import read_accuracy_log
from harness.benchmarks.qwen3_vl.rehearsal import write_rehearsal
from harness.contract import Counter
from harness.run.tokens import MESSAGES
from tests.benchmarks.comparing import report, run_script, write_data, write_log

COUNT = 40
_READ = """
import json, sys
from datasets import load_dataset
rows = load_dataset(sys.argv[1], split="train+test")
"""
_LOADGEN = (
    _READ
    + """
from mlperf_inf_mm_q3vl.task import ShopifyGlobalCatalogue
made = [ShopifyGlobalCatalogue.formulate_loaded_sample(row) for row in rows]
print(json.dumps([sample.model_dump(mode="json")["messages"] for sample in made]))
"""
)
_ENDPOINTS = (
    _READ
    + """
from inference_endpoint.dataset_manager.predefined import shopify_product_catalogue as catalogue
shaper = catalogue.presets.q3vl()[0]
made = [shaper.process_row(catalogue._process_sample_to_row(row)) for row in rows]
roles = [("system", "system"), ("user", "prompt")]
print(json.dumps([[{"role": role, "content": row[name]} for role, name in roles] for row in made]))
"""
)
_SCORE = """
import sys
from types import SimpleNamespace
from mlperf_inf_mm_q3vl.evaluation import run_evaluation
if __name__ == "__main__":
    dataset = SimpleNamespace(repo_id=sys.argv[1], token=None, split=["train", "test"])
    run_evaluation(12345, sys.argv[2], dataset)
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("python", type=Path)
    parser.add_argument("--endpoints", type=Path, nargs=2)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return 0 if all(list(compare(asked, Path(folder)))) else 1


def compare(asked: argparse.Namespace, folder: Path) -> Iterator[bool]:
    """Print what was compared. Yield whether it is equal."""
    data = write_data(write_rehearsal, folder, count=COUNT)[0]
    products = folder / "products"  # without the mark, which `datasets` would read as a table
    products.symlink_to(data / "data")
    source = asked.checkout / "multimodal/qwen3-vl/src"
    references = {"loadgen": (asked.python, source, _LOADGEN)}
    if asked.endpoints:
        references["endpoints"] = (asked.endpoints[1], asked.endpoints[0] / "src", _ENDPOINTS)
    for wording, (python, code, program) in references.items():
        theirs = json.loads(run(python, code, program, folder, str(products)).splitlines()[-1])
        ours = build(data, folder / wording, wording)
        same = sum(one == other for one, other in zip(ours, theirs, strict=True))
        yield report(f"messages as {wording}: {same} of {len(theirs)} are the same", same == COUNT)
    yield from compare_scores(asked.python, source, folder, products)


def build(data: Path, output: Path, wording: str) -> list[Any]:
    output.mkdir()
    qwen3_vl.BENCHMARK.build_dataset(data, {"wording": wording}, output, Counter(output.with_suffix(".counter")))
    return [json.loads(bytes(row)) for row in qwen3_vl.BENCHMARK.load_samples(output)[MESSAGES]]


def compare_scores(python: Path, source: Path, folder: Path, products: Path) -> Iterator[bool]:
    dataset = folder / "loadgen"
    for kind, answers in draw_answers(dataset):
        log = write_log(folder, map(qwen3_vl.BENCHMARK.write_text, answers))
        output = folder / f"score of {kind}"
        output.mkdir()
        ours = qwen3_vl.BENCHMARK.score(read_accuracy_log(log), dataset, output)
        printed = run(python, source, _SCORE, output, str(products), str(log))
        reported = next(line for line in (output / "accuracy.txt").read_text().splitlines() if line.startswith("{"))
        theirs = json.loads(reported)["f1"]
        row = next(line for line in printed.splitlines() if "From accuracy file" in line)
        _, brand, condition = (float(cell) for cell in row.strip("│ ").split("│")[1:])
        same = theirs == ours["f1"] and f"{ours['brand_f1']:.6g}" == f"{brand:.6g}"
        if not ours["unparsable"]:  # else theirs tosses a coin
            same = same and f"{ours['is_secondhand_f1']:.6g}" == f"{condition:.6g}"
        yield report(f"{kind}: official {theirs} {brand} {condition}, here {dict(ours)}", same)


def draw_answers(dataset: Path) -> Iterator[tuple[str, list[str]]]:
    truths = json.loads((dataset / qwen3_vl.scoring.REFERENCES).read_text())
    rows = [
        dict(zip(("category", "brand", "is_secondhand"), row, strict=True))
        for row in zip(*truths.values(), strict=True)
    ]
    rng = np.random.default_rng(5)
    right = [json.dumps(row) for row in rows]
    spoiled = [json.dumps(spoil(row, rows, rng)) for row in rows]
    broken = ["", "no", "{}", "```json\n{}\n```", '{"category": "a", "brand": "b", "is_secondhand": 2}']
    said = ["yes", 0, "off", 1.0, None]
    odd = [json.dumps({**row, "is_secondhand": word}) for row, word in zip(rows, cycle(said), strict=False)]
    yield "right", right
    yield "half", [*right[: COUNT // 2], *spoiled[COUNT // 2 :]]
    yield "spoiled", spoiled
    yield "odd", [*odd[: COUNT // 2], *[f" {text}\n" for text in right[COUNT // 2 :]]]
    yield "broken", [*spoiled[: COUNT // 2], *[str(rng.choice(broken)) for _ in rows[COUNT // 2 :]]]


def spoil(row: dict[str, Any], rows: Sequence[dict[str, Any]], rng: np.random.Generator) -> dict[str, Any]:
    """Return a product that is wrong from some level on, with a few other letters in the brand and another
    condition."""
    levels = row["category"].split(" > ")
    other = rows[int(rng.integers(len(rows)))]
    brand = list(row["brand"] * int(rng.integers(1, 4)))
    brand[int(rng.integers(len(brand)))] = str(rng.choice(list("aeiou")))
    category = " > ".join([*levels[: int(rng.integers(0, len(levels) + 1))], other["category"].split(" > ")[-1]])
    return {"category": category, "brand": "".join(brand), "is_secondhand": bool(rng.integers(2))}


def run(python: Path, source: Path, program: str, folder: Path, *words: str) -> str:
    """Return the output of the script, including its own messages on both streams."""
    script = folder / "program.py"
    script.write_text(program)
    environment = {
        "PYTHONPATH": str(source),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "cache"),
        "PATH": "/usr/bin",
    }
    ended = run_script([python, script, *words], cwd=folder, env=environment)
    return ended.stderr + ended.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
