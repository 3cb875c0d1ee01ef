"""Content of a submission tree: values, and references to bytes in storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from reconciler.resource.kinds import Cell
from reconciler.storage.files import hash_bytes


class LogRef(Struct, frozen=True, order=True):
    """Bytes in storage, identified by SHA-256 (hexadecimal); ``size`` in bytes. They are copied into the tree
    unchanged."""

    sha256: str
    size: int


Content = bytes | LogRef
Files = Mapping[str, Content]
Rendered = tuple[str, Content]  # a path in the tree, with "/", and its content


class AccuracyLog(Struct, frozen=True):
    """mlperf_log_accuracy.json. ``original`` stays in storage and gives the hash line; ``kept`` is its truncated form
    (``reconciler.loadgen.log_files.truncate_text``), which goes into the tree."""

    original: LogRef
    kept: Content


class CellContent(Struct, frozen=True):
    """One scenario folder.

    ``official``: the benchmark it is entered as (in open, the cell's own name may be the submitter's).
    ``measurements``: the fields of measurements.json. ``user_conf``: the published run's conf. ``performance`` and
    ``accuracy``: the logs of run_1 and of the accuracy run by file name, without the accuracy log itself.
    ``accuracy_text``: the scorer's output, without a hash line. ``settings``: resolved settings for README.md, as text.
    ``format``: of its results. Those of the endpoints harness have neither user.conf nor accuracy log; their
    ``configuration`` is the performance run's config.yaml, ``performance`` and ``accuracy`` contain its JSON, and
    ``compliance`` {"audit": its tests' files}. ``code``: location of the code, one line of Markdown. ``compliance``:
    {test: {path below it: content}}. ``power``: files of a power measurement by their path below performance/.
    ``inferred_from``: the cell whose runs these are. ``rehearsal``: these runs are not results, and the cell's files
    state this. ``point``: for another program than MLPerf Inference, that program's description of the cell.
    ``requirements``: packages installed for the performance run, in pip's format.
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
    """One systems/<name>.json. ``description``: the user's declared fields, except those that the tool knows (division,
    submitter, status, system_type). ``original``: the previously published file, whose bytes are kept if it states the
    same; ``nameplate``: systems/<name>_power.yaml; b"" for none. ``nodes``: the fields specific to each type of node,
    by its name, if there are several types."""

    name: str
    division: str
    category: str
    status: str
    description: Mapping[str, Any] = field(default_factory=dict)
    original: bytes = b""
    nameplate: bytes = b""
    nodes: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


class CellCode(Struct, frozen=True):
    """The code of a cell's published run. ``official``: as in ``CellContent``. ``files``: the code kept by the run, by
    name below src/<benchmark>, without the files excluded by the spec. ``excluded``: number of those files. ``tool``:
    the program that made the record. ``submission``, ``system``, ``settings``: their parts of a spec, nested, with
    units, and without what exists only on the measuring machine. ``places``: where the spec expects code, and its
    folder in ``files``. ``extras``: this project's extras that the run needs. ``digests``: SHA-256 by name of the files
    of dataset, model and engine. ``lists_software``: the README.md of its results lists the software."""

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
    ``kept_code``: of cells whose runs kept their code. A README.md is added if there is none. ``documents``: files
    below the submitter's folder, such as documentation/calibration.md; ``official_only``: those that the open division
    omits.
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
    return content.sha256 if isinstance(content, LogRef) else hash_bytes(content)
