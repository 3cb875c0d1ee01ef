"""Connect LoadGen's accuracy log to the official script, which reads videos named by their prompts.

    python -m harness.benchmarks.wan_2_2.vbench ACCURACY_LOG DATASET RUN_DIR [--show 130,106,…] -- COMMAND…

DATASET is the prepared dataset. COMMAND is the official script with its own options; the folders of videos and of
results are added. Prints the score in accuracy.txt's format: the mean of VBench's values for all dimensions, in
percent. Videos of samples that the round requires (--show) are stored in RUN_DIR/videos.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.benchmarks.accuracy import read_accuracy_log
from harness.benchmarks.wan_2_2 import METRIC, SUFFIX
from harness.benchmarks.wan_2_2.prompts import WRITTEN
from harness.errors import HarnessError

# The reference's run_evaluation.py.
DIMENSIONS = (
    "appearance_style",
    "background_consistency",
    "dynamic_degree",
    "motion_smoothness",
    "scene",
    "subject_consistency",
)
RESULTS = "results_*_eval_results.json"
SHOWN = "videos"


def main(arguments: Sequence[str]) -> int:
    words, command = _split(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("accuracy_log", type=Path)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--show", default="", help="samples whose videos the round requires")
    options = parser.parse_args(words)
    if not command:
        parser.error("the official script is missing: add it after --")
    asked, results = options.run_dir / "vbench", options.run_dir / "vbench-results"
    try:
        write_videos(options.accuracy_log, options.dataset, asked, options.run_dir / SHOWN, options.show.split(","))
        results.mkdir(exist_ok=True)
        full_command = [*command, "--videos-path", str(asked), "--output-path", str(results)]
        evaluate(full_command)
        score = read_score(results)
    except HarnessError as error:
        sys.stderr.write(f"{error.problem}; {error.fix}\n")
        return 1
    sys.stdout.write(f"{ {METRIC: score} }\n")
    return 0


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split into this command's own arguments and those of the official script."""
    words = list(arguments)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def write_videos(log: Path, dataset: Path, folder: Path, shown: Path, wanted: Iterable[str]) -> None:
    """Write every answer as PROMPT-0.mp4, by which VBench finds the prompt; those ``wanted`` also by their number."""
    answers = read_accuracy_log(log)
    prompts = (dataset / WRITTEN).read_text(encoding="utf-8").splitlines()
    if len(answers.data) != len(prompts):
        problem = f"{log.name} has answers to {len(answers.data)} of {len(prompts)} prompts"
        raise HarnessError(problem, "input", "run accuracy again")
    chosen = set(wanted)
    for place in (folder, shown):
        place.mkdir(parents=True, exist_ok=True)
    for index, data in zip(answers.indices.tolist(), answers.data, strict=True):
        (folder / f"{prompts[index]}-0{SUFFIX}").write_bytes(data)
        if str(index) in chosen:
            (shown / f"{index}{SUFFIX}").write_bytes(data)


def evaluate(command: Sequence[str]) -> None:
    """Run the script. Its output goes to standard error, since standard output is for the score."""
    try:
        status = subprocess.run(command, check=False, stdout=sys.stderr).returncode
    except OSError as error:
        raise HarnessError(f"{command[0]} failed to start: {error}", "missing", "check the command after --") from error
    if status:
        problem = f"{' '.join(command)} ended with status {status}"
        raise HarnessError(problem, "backend", "see its standard error")


def read_score(results: Path) -> float:
    """Read the newest results, in percent. Raises HarnessError if a dimension is missing."""
    found = sorted(results.glob(RESULTS))
    if not found:
        raise HarnessError(f"VBench wrote no {RESULTS}", "backend", "see its standard error")
    try:
        said = json.loads(found[-1].read_text(encoding="utf-8"))
        values = [float(said[name][0]) for name in DIMENSIONS]
    except (ValueError, KeyError, TypeError, LookupError) as error:
        problem = f"{found[-1].name} does not contain all of {', '.join(DIMENSIONS)}: {error}"
        raise HarnessError(problem, "backend", "evaluate all six dimensions") from error
    return round(100 * sum(values) / len(values), 4)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
