"""Facts of a built-in benchmark of MLPerf: names, data layout, model, licence, and the settings with which it is
rehearsed, from its ``benchmark.yaml``.

The files are with the code that children import (``harness/benchmarks/<name>/``); nothing of that is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, ValidationError, convert, field

from harness import catalog
from reconciler.errors import ReconcilerError
from reconciler.resource.inputs import Origin
from reconciler.storage.documents import parse_yaml_mapping

_FOLDER = Path(catalog.__file__).parent / "benchmarks"
_FILE = "benchmark.yaml"


class SourceFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dataset or model as it is published. ``layout``: file → what it is; ``by_hand``: how to get what may not be
    downloaded; ``sources``: addresses of what may; ``type``: of the inputs, as measurements name it.

    ``settings``: those that it is made with, each with what it may be, "number" and "flag" in addition to lists; None
    where it is not stated. ``precisions``: those in which a model can be made here; all where none is named."""

    title: str
    licence: str = ""
    size: str = ""
    prepared: str = ""
    samples: int = 0
    file: str = ""
    by_hand: str = ""
    calibration: str = ""
    weights: str = ""
    type: str = "fp32"
    layout: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str | tuple[str, ...]] | None = None
    precisions: tuple[str, ...] = ()


class RehearsalFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``samples`` to generate; what a spec says of the benchmark and of each scenario, so that a pass takes minutes:
    "{data}" for the generated data, "{python}" for the interpreter that has this project.
    ``tests``: what it says of the compliance tests that generated answers can pass; where some cannot, the benchmark is
    rehearsed in the open division, with these. Empty: all of them can."""

    samples: int
    tests: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    benchmark: Mapping[str, Any] = field(default_factory=dict)
    scenarios: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class SupportFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Support of a benchmark here. ``runs``: its code comes with the project; where it does not, or where the official
    script scores, ``because`` says why. ``script``: that script, in mlcommons/inference, with the ``sha256`` of the
    version that is meant; ``command``: how a spec declares it as harness.score.command, in its folder."""

    runs: bool = True
    because: str = ""
    script: str = ""
    sha256: str = ""
    command: tuple[str, ...] = ()


class AnswerFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Types of an answer's bytes. ``dtype``: to the scorer that comes with the project; ``scripts``: official script
    that scores → the default of its --dtype; ``only``: these scripts read no other type."""

    dtype: str = ""
    scripts: Mapping[str, str] = field(default_factory=dict)
    only: bool = False


class BenchmarkFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``code``: its name among the built-in ones; ``names``: what a spec may call it → what rounds call that.
    ``backends``: what computes it where the spec names nothing, on a "cpu" or on "nvidia". ``rehearsal``: None where it
    cannot be rehearsed. ``until``: the last round whose benchmark it is, where later ones mean another by its name.
    ``computed``: its kind of model, which not every backend computes."""

    code: str
    title: str
    names: Mapping[str, str]
    metric: str
    dataset: SourceFacts
    model: SourceFacts
    extra: str = ""
    backends: Mapping[str, str] = {}
    rehearsal: RehearsalFacts | None = None
    support: SupportFacts = SupportFacts()
    answers: AnswerFacts = AnswerFacts()
    until: str = ""
    computed: Literal["network", "program", "pipeline", "tokens"] = "network"

    def find_official_name(self, name: str) -> str:
        """Find its name in rounds where a spec calls it ``name``; by another name it is the first of them."""
        return self.names.get(name, next(iter(self.names.values())))

    @property
    def origin(self) -> Origin:
        return Origin(f"benchmark {self.code}")


def load_benchmark_facts() -> Mapping[str, BenchmarkFacts]:
    """Every built-in benchmark that has such a file, by its code's name."""
    return {path.parent.name: _load(path) for path in _read_files()}


@cache
def find_benchmark_facts(name: str) -> BenchmarkFacts | None:
    """By any of its names, or that of its code: the first that has it. Every cell asks, of few of them: a file that
    does not even hold the name is not parsed."""
    written = name.encode(errors="surrogatepass")
    files = (path for path, data in _read_files().items() if written in data or path.parent.name == name)
    return next((facts for facts in map(_load, files) if name in (*facts.names, facts.code)), None)


@cache
def _read_files() -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(_FOLDER.glob(f"*/{_FILE}"))}


@cache
def _load(path: Path) -> BenchmarkFacts:
    return parse_benchmark_facts(path)


def parse_benchmark_facts(path: Path) -> BenchmarkFacts:
    """Raises ReconcilerError, naming the field that is missing, unknown or of another type."""
    values = {**parse_yaml_mapping(path.read_bytes()).values, "code": path.parent.name}
    try:
        return convert(values, BenchmarkFacts)
    except ValidationError as error:
        fix = "compare it with the file of another benchmark; the classes of this module list the fields"
        raise ReconcilerError(f"{path.parent.name}/{path.name}: {error}", fix=fix) from error


_VARIANTS = ("-99.9", "-99", "-95")


def strip_variant(benchmark: str) -> str:
    """bert of bert-99.9: what variants that differ in the accuracy they have to reach have in common. Rules let them
    share their runs."""
    return next((benchmark.removesuffix(ending) for ending in _VARIANTS if benchmark.endswith(ending)), benchmark)
