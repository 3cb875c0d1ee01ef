"""Facts about a built-in MLPerf benchmark, from its ``benchmark.yaml``: names, data layout, model, licence, and
rehearsal settings.

The files are stored with the code that child processes import (``harness/benchmarks/<name>/``); this module imports
none of that code.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, ValidationError, convert, field
from msgspec.structs import replace

from harness import catalog
from reconciler.errors import ReconcilerError
from reconciler.resource.inputs import Origin
from reconciler.storage.documents import parse_yaml_mapping

_FOLDER = Path(catalog.__file__).parent / "benchmarks"
_FILE = "benchmark.yaml"


class SourceFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Published dataset or model. ``layout``: file → description; ``by_hand``: how to get files that this project may
    not download; ``sources``: addresses of those that it may; ``type``: data type of the inputs, as used in
    measurements; ``weights``: the model's name there, by default its ``file``.

    ``settings``: settings for preparing it, each with its allowed values: a list, "number" or "flag"; None if unknown.
    ``precisions``: those in which a model can be prepared here; empty means all.
    """

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
    """Settings of a rehearsal. ``samples``: number to generate; ``model``: the generated file, if it has another name
    than the published one; the spec's settings for the benchmark and each scenario that make a pass take minutes.
    "{data}" means the generated data, "{python}" this project's interpreter.
    ``tests``: settings for the compliance tests that generated answers can pass; if some cannot pass, the benchmark is
    rehearsed in the open division with these. Empty: all can pass."""

    samples: int
    model: str = ""
    tests: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    benchmark: Mapping[str, Any] = field(default_factory=dict)
    scenarios: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class SupportFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Level of support for a benchmark. ``runs``: its code is included in the project; if not, or if the official
    script scores, ``because`` gives the reason. ``script``: the official script in mlcommons/inference, with the
    ``sha256`` of the expected version; ``command``: its declaration in a spec as harness.score.command, in its
    folder."""

    runs: bool = True
    because: str = ""
    script: str = ""
    sha256: str = ""
    command: tuple[str, ...] = ()


class AnswerFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Data types of answers. ``dtype``: for the scorer included in the project; ``scripts``: official scoring script →
    the default of its --dtype; ``only``: scripts that read only that type."""

    dtype: str = ""
    scripts: Mapping[str, str] = field(default_factory=dict)
    only: bool = False


class BenchmarkFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Facts about one benchmark. ``code``: its built-in name; ``names``: name in a spec → name in rounds. ``backends``:
    default backends on "cpu" and on "nvidia". ``rehearsal``: None if it cannot be rehearsed. ``until``: the last round
    that includes it, if later rounds use its name for another benchmark. ``computed``: the kind of model, which not
    every backend supports."""

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
        """Return the official name for a spec's ``name``; for any other name, the first official name."""
        return self.names.get(name, next(iter(self.names.values())))

    @property
    def origin(self) -> Origin:
        return Origin(f"benchmark {self.code}")


def load_benchmark_facts() -> Mapping[str, BenchmarkFacts]:
    """Load every built-in benchmark that has a facts file, by its code name."""
    return {path.parent.name: _load(path) for path in _read_files()}


@cache
def find_benchmark_facts(name: str) -> BenchmarkFacts | None:
    """Find a benchmark by any of its names or its code name; the first match wins. This runs for every cell, so files
    that do not contain the name are not parsed."""
    written = name.encode(errors="surrogatepass")
    files = (path for path, data in _read_files().items() if written in data or path.parent.name == name)
    return next((facts for facts in map(_load, files) if name in (*facts.names, facts.code)), None)


@cache
def _read_files() -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(_FOLDER.glob(f"*/{_FILE}"))}


def parse_benchmark_facts(path: Path) -> BenchmarkFacts:
    """Parse a benchmark's facts. Raises ReconcilerError with the missing, unknown or mistyped field."""
    values = {**parse_yaml_mapping(path.read_bytes()).values, "code": path.parent.name}
    try:
        facts = convert(values, BenchmarkFacts)
    except ValidationError as error:
        fix = "compare it with the file of another benchmark; the classes of this module list the fields"
        raise ReconcilerError(f"{path.parent.name}/{path.name}: {error}", fix=fix) from error
    return replace(facts, model=replace(facts.model, weights=facts.model.weights or facts.model.file))


_load = cache(parse_benchmark_facts)
