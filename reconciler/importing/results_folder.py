"""Results of the endpoints harness that were made elsewhere, in a folder as the harness or a submission tree has it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import LogError
from reconciler.importing.log_folder import Made, refuse_strange
from reconciler.mlperf.endpoints_accuracy import parse_number, read_accuracy_scores
from reconciler.mlperf.log_files import ACCURACY_RESULTS, CONFIG, RESULT_SUMMARY
from reconciler.result_formats import endpoints_results
from reconciler.result_formats.endpoints_results import AUDIT, Left, parse_left
from reconciler.result_formats.format import ResultFormat
from reconciler.result_formats.table import FORMATS

_CONFIGS = (CONFIG, "config.yml")
_PARTS = {"accuracy": ACCURACY_RESULTS, "performance": RESULT_SUMMARY}


@dataclass(frozen=True, slots=True)
class FoundResults:
    """One run. ``files``: those of its record by the names of artifacts. ``left``: what they hold."""

    folder: Path
    mode: str
    files: dict[str, Path]
    left: Left

    @property
    def format(self) -> ResultFormat:
        return FORMATS[endpoints_results.NAME]

    @property
    def made(self) -> Made:
        summary = self.left.results.summary
        said = (summary.get(name) for name in ("version", "git_sha")) if summary else ()
        return Made("endpoints.version", " ".join(str(item) for item in said if item))


def has_results(path: Path) -> bool:
    """Whether a folder is one of the endpoints harness."""
    return any((path / name).is_file() for name in _CONFIGS)


def find_results(path: Path) -> tuple[FoundResults, ...]:
    """The accuracy run and the performance run in a folder, or the one that is there. LogError: neither, or a file that
    cannot be read."""
    refuse_strange(path)
    config = next((path / name for name in _CONFIGS if (path / name).is_file()), path / CONFIG)
    found = [_found(path, config, mode) for mode in _PARTS if (path / mode / _PARTS[mode]).is_file()]
    runs = tuple(item for item in found if item is not None)
    if not runs:
        wanted = " or ".join(f"{mode}/{name}" for mode, name in _PARTS.items())
        fix = "name the folder that the endpoints harness reported into"
        raise LogError(f"{path} has no {wanted} of a run", fix=fix)
    return runs


def _found(path: Path, config: Path, mode: str) -> FoundResults | None:
    """None for the other mode's file as the harness leaves it beside a run: without a sample, or without a score."""
    files = {CONFIG: config, _PARTS[mode]: path / mode / _PARTS[mode]}
    if mode == "performance":
        audits = sorted(item for item in (path / AUDIT).rglob("*.json") if item.is_file())
        files |= {item.relative_to(path).as_posix(): item for item in audits if _kept(item.relative_to(path))}
    try:
        left = parse_left({name: file.read_bytes() for name, file in files.items()})
    except (OSError, ValueError) as error:
        raise LogError(f"{path}: {error}", fix="provide the files as the harness wrote them") from error
    summary, scores = left.results.summary, left.results.scores
    if mode == "performance":
        return (
            FoundResults(path, mode, files, left) if summary and parse_number(summary.get("n_samples_issued")) else None
        )
    return FoundResults(path, mode, files, left) if scores and list(read_accuracy_scores(scores)) else None


def _kept(below: Path) -> bool:
    """A test's verdict, and the result of each of its phases."""
    return len(below.parts) == 2 or below.name == RESULT_SUMMARY
