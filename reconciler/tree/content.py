"""Content of a submission tree: values, and references to bytes that are in storage."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from reconciler.resource.kinds import Cell


class LogRef(Struct, frozen=True, order=True):
    """Bytes in storage by their SHA-256 (hexadecimal); ``size`` in bytes. They are copied into the tree unchanged."""

    sha256: str
    size: int


Content = bytes | LogRef
Files = Mapping[str, Content]
Rendered = tuple[str, Content]  # a path in the tree with "/", and what is there


class AccuracyLog(Struct, frozen=True):
    """mlperf_log_accuracy.json: ``original`` stays in storage and gives the hash line; ``kept`` is its truncated form
    (``reconciler.loadgen.log_files.truncate_text``), which goes into the tree."""

    original: LogRef
    kept: Content


class CellContent(Struct, frozen=True):
    """One scenario folder.

    ``official``: the benchmark it is entered as (in open the cell's own name may be the submitter's). ``measurements``:
    the fields of measurements.json. ``user_conf``: the conf of the very run that is published. ``performance`` and
    ``accuracy``: the logs of run_1 and of the accuracy run by file name, without the accuracy log itself.
    ``accuracy_text``: the scorer's output, without a hash line. ``settings``: resolved settings for README.md, as text.
    ``format``: of its results. Those of the endpoints harness have neither user.conf nor accuracy log; their
    ``configuration`` is config.yaml of the performance run, ``performance`` and ``accuracy`` hold its JSON, and
    ``compliance`` {"audit": its tests' files}.
    ``code``: where the code is, one line of Markdown. ``compliance``: {test: {path below it: content}}.
    ``power``: files of a power measurement by their path below performance/. ``inferred_from``: the cell whose
    runs these are. ``rehearsal``: these runs are no result, and the cell's files say so. ``point``: of a cell of
    another program than MLPerf Inference, what that program describes.
    ``requirements``: what was installed where its performance run's code ran, as pip writes it.
    """

    cell: Cell
    official: str
    measurements: Mapping[str, Any]
    user_conf: Content | None
    performance: Files
    accuracy: Files
    accuracy_log: AccuracyLog | None
    accuracy_text: str
    settings: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    compliance: Mapping[str, Files] = field(default_factory=dict)
    power: Files = field(default_factory=dict)
    inferred_from: Cell | None = None
    configuration: Content | None = None
    format: str = "loadgen"
    rehearsal: bool = False
    point: Struct | None = None
    requirements: tuple[str, ...] = ()


class SystemContent(Struct, frozen=True):
    """One systems/<name>.json. ``description`` holds what the user declared, field by field; fields that the tool knows
    (division, submitter, status, system_type) are not taken from it. ``original``: the file as it was published before,
    whose bytes are kept where it says the same; ``nameplate``: systems/<name>_power.yaml; b"" for none. ``nodes``: what
    each type of node has of its own, by its name, where there are several."""

    name: str
    division: str
    category: str
    status: str
    description: Mapping[str, Any] = field(default_factory=dict)
    original: bytes = b""
    nameplate: bytes = b""
    nodes: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


class CellCode(Struct, frozen=True):
    """Code of a cell's published run. ``official``: as of its content. ``files``: the code that the run kept, by name
    below src/<benchmark>, without what the spec excludes. ``excluded``: how many files those are. ``tool``: what made
    the record. ``submission``, ``system``, ``settings``: what a spec says of them, nested, with units and without what
    is only on the machine that measured. ``places``: where the spec expects code, and the folder of it in ``files``.
    ``extras``: of this project, which the run needs. ``digests``: SHA-256 by name of the files of dataset, model and
    engine. ``lists_software``: the README.md of its results does."""

    cell: Cell
    official: str
    files: Files
    excluded: int = 0
    tool: str = ""
    submission: Mapping[str, Any] = field(default_factory=dict)
    system: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    extras: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    lists_software: bool = False


class SubmissionContent(Struct, frozen=True):
    """Everything that one submitter enters.

    ``code``: files of src/<benchmark> by benchmark folder, in every division that enters it, whatever its runs kept;
    ``kept_code``: of the cells whose runs kept theirs. A README.md is added where none is given. ``documents``: files
    below the submitter's folder, as documentation/calibration.md; ``official_only``
    names those that the open division does not carry.
    """

    submitter: str
    systems: tuple[SystemContent, ...]
    cells: tuple[CellContent, ...]
    code: Mapping[str, Files] = field(default_factory=dict)
    kept_code: tuple[CellCode, ...] = ()
    documents: Files = field(default_factory=dict)
    official_only: frozenset[str] = frozenset()


def hash_content(content: Content) -> str:
    """SHA-256 in hexadecimal."""
    return content.sha256 if isinstance(content, LogRef) else hashlib.sha256(content).hexdigest()
