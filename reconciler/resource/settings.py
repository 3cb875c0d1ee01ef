"""Resolved settings of a cell, a system or the submission. Values are canonical, under the flat names used in records
and the reference ("engine.batch_size"); a reader converts a value to the type it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from harness.catalog import read_slices
from reconciler.resource.kinds import Cell
from reconciler.resource.queues import EXECUTOR, find_queue
from reconciler.resource.records import QUICK
from reconciler.storage.launch.launcher import LAUNCHER, LAUNCHING, NO_PYTHON, PYTHON, Launcher

T = TypeVar("T")

# Names used by several stages: a harness's own command, and its parts.
HARNESS, SERVICE, BUILD = "harness", "harness.service", "harness.build"
COMMAND, SCORE_COMMAND = "harness.command", "harness.score.command"
ADAPTER = "harness.adapter"  # names the published harness from which unset settings are taken
SERVICE_COMMAND, BUILD_COMMAND = f"{SERVICE}.command", f"{BUILD}.command"

RESULTS, USUAL = "harness.results", "loadgen"  # a harness's output format; our own harness uses the default

ORIGINAL = "system.original"  # setting of a system: path of its previously published description
NAMEPLATE = "system.nameplate"  # setting of a system: path of the document on its power supplies
CLIENT_CODE = "client.code"  # code of the official Endpoints client
ACCURACY_DATASET = "client.accuracy.dataset"
CLIENT_SOURCES = (CLIENT_CODE, "client.tokenizer", ACCURACY_DATASET)  # sources whose content enters keys
MAXIMUM = "max_supported_concurrency"  # limit of the system that a curve of points measures
MINIMUM = "min_concurrency"  # the smallest concurrency of its points
DEDICATED_OFFLINE = "point.offline"  # marks a point that is a dedicated Offline run instead of a fixed concurrency
AGENTIC = "point.agentic"  # marks a point of an agentic benchmark, whose client plays multi-turn conversations
ACCURACY_FROM = "accuracy_from"  # setting of a cell without an accuracy run: the scenario whose run it shares
# Groups that a curve's point publishes with its results.
DISCLOSING = ("disclosure", "nodes_used", "dp_shortfall", "warmup", "speculative_decoding")
_NODE_TYPES = "node_types."  # prefix for systems with different types of nodes
SLICES = "hardware.mig"  # slices of partitioned accelerators
BACKGROUND = "background"  # loads that run on other slices at the same time
DIRECTOR, NTP, KIT, ANALYZER = "power.director", "power.ntp", "power.kit", "power.analyzer"  # settings of a power meter
METERED = (DIRECTOR, NTP, KIT, ANALYZER)
STATE = "power_state"  # power state for a system's runs; only the state read back is identity
STATE_SET, STATE_RESTORE, STATE_READ, STATE_EXPECT = (
    f"{STATE}.{name}" for name in ("set", "restore", "read", "expect")
)


def is_placing(name: str) -> bool:
    """Return True if a system's setting only defines where and how its commands run: machine, launcher, power meter or
    power state. Such settings are not published."""
    return name in (*LAUNCHING, *METERED) or name.startswith((f"{EXECUTOR}.", f"{STATE}."))


def group_node_types(settings: Mapping[str, T]) -> dict[str, dict[str, T]]:
    """Group a system's settings by type of node. A type's name may contain dots, a field's name does not."""
    found: dict[str, dict[str, T]] = {}
    for path, value in settings.items():
        if path.startswith(_NODE_TYPES):
            name, _, own = path.removeprefix(_NODE_TYPES).rpartition(".")
            found.setdefault(name, {})[own] = value
    return found


_MILLISECONDS = 1000
# Fields of systems/<name>.json that state the same counts as hardware settings.
COUNTED = {"accelerators_per_node": "hardware.count", "number_of_nodes": "hardware.nodes"}
NO_HARDWARE = frozenset({"", "none", "n/a", "0"})  # values that users write for missing hardware


class Hardware(Struct, frozen=True):
    """``accelerator``, ``cpu``: "" if not declared. ``count``: accelerators per node, ``nodes``: number of nodes; 0 if
    not declared. ``power_limit``: per accelerator in mW, 0 for none. ``slices``: the profile of each slice of a node's
    partitioned (MIG) accelerators."""

    accelerator: str = ""
    cpu: str = ""
    count: int = 0
    nodes: int = 0
    power_limit: int = 0
    slices: tuple[str, ...] = ()


class SpecField(Generic[T]):
    """A field of a spec as an attribute of settings. ``read`` returns its value from settings, or the default."""

    __slots__ = ("name", "read")

    def __init__(self, name: str, read: Callable[[Any], T]) -> None:
        self.name, self.read = name, read

    def __get__(self, settings: object, _: type) -> T:
        return self.read(settings)


def text_of(name: str, default: str = "") -> SpecField[str]:
    return SpecField(name, lambda settings: settings.get_text(name, default))


def words_of(name: str) -> SpecField[tuple[str, ...]]:
    return SpecField(name, lambda settings: settings.get_words(name))


def seconds_of(name: str) -> SpecField[float]:
    return SpecField(name, lambda settings: settings.get_seconds(name))


class CellFields:
    """The fields of a cell and its system, which all classes that read settings by name share."""

    __slots__ = ()

    benchmark = text_of("benchmark.name")
    official = text_of("benchmark.official")
    benchmark_code = text_of("benchmark.code")
    benchmark_path = text_of("benchmark.path")
    model_path = text_of("model.path")
    backend = text_of("engine.backend")
    backend_version = text_of("engine.version")
    precision = text_of("engine.precision")
    system = text_of("system.name")
    harness_code = text_of("harness.code")
    api_key_env = text_of("endpoint.api_key_env")


class Settings(Struct, frozen=True):
    """Settings by flat name. A name that is not declared, or declared as null, reads as the default."""

    values: Mapping[str, object] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str) -> object:
        return self.values.get(name)

    def get_text(self, name: str, default: str = "") -> str:
        found = self.values.get(name)
        return default if found is None else str(found)

    def get_number(self, name: str, default: int = 0) -> int:
        found = self.values.get(name)
        return default if found is None else int(str(found))

    def get_seconds(self, name: str, default: float = 0.0) -> float:
        """Get a duration in seconds; durations are stored in ms."""
        found = self.values.get(name)
        return default if found is None else float(str(found)) / _MILLISECONDS

    def get_words(self, name: str) -> tuple[str, ...]:
        """Get the words of a list, such as a command."""
        found = self.values.get(name)
        return tuple(map(str, found)) if isinstance(found, list | tuple) else ()

    def get_below(self, prefix: str) -> dict[str, object]:
        """Get the settings whose names begin with the prefix, under names without it."""
        return {name.removeprefix(prefix): value for name, value in self.values.items() if name.startswith(prefix)}

    @property
    def launcher(self) -> Launcher:
        """The words that start each of our processes on the system's machine; empty if it has no launcher."""
        if self.get_text(PYTHON) == NO_PYTHON:
            return Launcher()
        return Launcher(self.get_words(LAUNCHER), self.get_text(PYTHON))

    @property
    def bare_launcher(self) -> Launcher:
        """The words that start only declared commands, in an image without our package."""
        return Launcher(self.get_words(LAUNCHER) if self.get_text(PYTHON) == NO_PYTHON else ())

    @property
    def runs_here(self) -> bool:
        """Return True if the system's commands run on this machine. Other places to run can only be declared in these
        settings."""
        return not self.launcher.words and not self.is_queued

    @property
    def queue(self) -> str:
        """The queue that allocates the system's machines; "" for none."""
        return find_queue(self.values)

    @property
    def is_queued(self) -> bool:
        """Return True if a queue allocates the machines, which cannot be inspected before a job runs there."""
        return self.queue != ""

    @property
    def hardware(self) -> Hardware:
        accelerator, cpu = (self.get_text(f"hardware.{name}") for name in ("accelerator", "cpu"))
        return Hardware(
            accelerator="" if accelerator.lower() in NO_HARDWARE else accelerator,
            cpu="" if cpu.lower() in NO_HARDWARE else cpu,
            count=self.get_number("hardware.count"),
            nodes=self.get_number("hardware.nodes"),
            power_limit=self.get_number("hardware.power_limit"),
            slices=read_slices(self.get_text(SLICES)),
        )


class CellSettings(CellFields, Settings, frozen=True):
    """Settings of one cell, including its system's; for a run, also the values that the round adds."""

    command = words_of(COMMAND)
    score_command = words_of(SCORE_COMMAND)
    build_command = words_of(BUILD_COMMAND)
    service_command = words_of(SERVICE_COMMAND)
    harness_outputs = words_of("harness.outputs")
    harness_timeout = seconds_of("harness.timeout")
    results = text_of(RESULTS, USUAL)
    image = text_of("harness.image")
    model_name = text_of("harness.model_name")
    user_conf = text_of("harness.user_conf", "written")
    audit_config = text_of("harness.audit_config")
    power_path = text_of("power.path")
    power_kit = text_of(KIT)
    power_director = text_of(DIRECTOR)
    power_ntp = text_of(NTP)

    def get_part_text(self, part: str, name: str) -> str:
        """Get a text of a harness part. A part that does not set it inherits the harness's text."""
        return self.get_text(f"{part}.{name}") or self.get_text(f"{HARNESS}.{name}")

    def list_part_environment(self, part: str) -> Iterator[tuple[str, str, bool]]:
        """Yield name, text, and whether the text is the name of an environment variable that contains the value."""
        for name, value in self.get_below(f"{part}.env.").items():
            if isinstance(value, str):
                yield name, value, False
            else:
                assert isinstance(value, list | tuple)
                yield name, str(value[1]), True


class SystemSettings(Settings, frozen=True):
    """Settings of one system. ``description``: the fields of its file in the tree, as the user wrote them."""

    category = text_of("system.category")
    status = text_of("system.status")
    original = text_of(ORIGINAL)
    nameplate = text_of(NAMEPLATE)

    description: Mapping[str, object] = field(default_factory=dict)


class StoreSettings(Struct, frozen=True):
    """An object store. An option is a value, or a pair with the name of the environment variable that contains it."""

    url: str
    options: Mapping[str, object]


class SubmissionSettings(Settings, frozen=True):
    """Settings of the submission: its own (``embargo.until``, ``documents.calibration``, stores) and its systems'.
    ``tree``: the declared location of the rendered tree. By benchmark: ``code``: locations of code published instead of
    the runs' code; ``own_code``: the benchmark's own file, for runs that did not keep their code; ``excluded_code``:
    name patterns of unpublished files."""

    round: str = ""
    submitter: str = ""
    tree: str = ""
    systems: Mapping[str, SystemSettings] = field(default_factory=dict)
    code: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    own_code: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    excluded_code: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    documents_folder = text_of("documents.folder")
    calibration = text_of("documents.calibration")
    bandwidth = text_of("documents.bandwidth")
    checker_log = text_of("documents.checker_log")
    embargo_until = text_of("embargo.until")
    embargo_allow = words_of("embargo.allow")
    signers = text_of("signing.signers")

    @property
    def stores(self) -> dict[str, StoreSettings]:
        declared = self.values.get("stores")
        found = declared if isinstance(declared, Mapping) else {}
        return {name: StoreSettings(store["url"], store["options"]) for name, store in found.items()}


class Trial(Struct, frozen=True):
    """Runs with changed settings or a shorter duration, which never become results. ``settings`` of ``cell``: (path,
    text) as written in the spec: ("run.batch_size", "8"). Without a cell, no settings are changed. ``quick``: duration
    of the runs in ms, shorter than the round requires; 0 to keep the duration."""

    cell: Cell | None = None
    settings: tuple[tuple[str, str], ...] = ()
    quick: int = 0

    @property
    def length(self) -> str:
        return QUICK if self.quick else "full"
