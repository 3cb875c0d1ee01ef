"""Resolved settings of a spec: of a cell, of a system, of the submission as a whole. Values are canonical, under the
flat names that records and the reference have ("engine.batch_size"); a reader of one says as what."""

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

# Names that several stages read: a harness's own command, and its parts.
HARNESS, SERVICE, BUILD = "harness", "harness.service", "harness.build"
COMMAND, SCORE_COMMAND = "harness.command", "harness.score.command"
SERVICE_COMMAND, BUILD_COMMAND = f"{SERVICE}.command", f"{BUILD}.command"

RESULTS, USUAL = "harness.results", "loadgen"  # what a harness leaves; our own, too, leaves LoadGen's logs

ORIGINAL = "system.original"  # of a system: where its description is as it was published before
NAMEPLATE = "system.nameplate"  # where it is written what its power supplies can give
CLIENT_CODE = "client.code"  # of the official Endpoints client
ACCURACY_DATASET = "client.accuracy.dataset"
CLIENT_SOURCES = (CLIENT_CODE, "client.tokenizer", ACCURACY_DATASET)  # whose content counts
MAXIMUM = "max_supported_concurrency"  # of the system behind a curve of points
DEDICATED_OFFLINE = "point.offline"  # of a point that is not at a fixed concurrency, but a dedicated Offline run
AGENTIC = "point.agentic"  # of a point of an agentic benchmark: its client plays conversations, turn by turn
ACCURACY_FROM = "accuracy_from"  # of a cell without an accuracy run: the scenario whose run it shares
# Groups that a point of a curve publishes with its results.
DISCLOSING = ("disclosure", "nodes_used", "dp_shortfall", "warmup", "speculative_decoding")
_NODE_TYPES = "node_types."  # of a system whose nodes differ
SLICES = "hardware.mig"  # of accelerators that are cut
BACKGROUND = "background"  # loads on further slices at the same time
DIRECTOR, NTP, KIT, ANALYZER = "power.director", "power.ntp", "power.kit", "power.analyzer"  # of a power meter
METERED = (DIRECTOR, NTP, KIT, ANALYZER)
STATE = "power_state"  # in which the runs of a system are made; what it reads is identity, how it is set is not
STATE_SET, STATE_RESTORE, STATE_READ, STATE_EXPECT = (
    f"{STATE}.{name}" for name in ("set", "restore", "read", "expect")
)


def is_placing(name: str) -> bool:
    """True where a setting of a system only says where, through whom, under which meter and in which power state its
    commands run: nothing of it is published."""
    return name in (*LAUNCHING, *METERED) or name.startswith((f"{EXECUTOR}.", f"{STATE}."))


def group_node_types(settings: Mapping[str, T]) -> dict[str, dict[str, T]]:
    """Type of node → what it has of its own, of the settings of a system. A name may hold dots, a field has none."""
    found: dict[str, dict[str, T]] = {}
    for path, value in settings.items():
        if path.startswith(_NODE_TYPES):
            name, _, own = path.removeprefix(_NODE_TYPES).rpartition(".")
            found.setdefault(name, {})[own] = value
    return found


_MILLISECONDS = 1000
# Fields of systems/<name>.json that count what the hardware of a system counts.
COUNTED = {"accelerators_per_node": "hardware.count", "number_of_nodes": "hardware.nodes"}
NO_HARDWARE = frozenset({"", "none", "n/a", "0"})  # what people write where there is none


class Hardware(Struct, frozen=True):
    """``accelerator``, ``cpu``: "" where none is declared. ``count``: of accelerators on each node, ``nodes``: 0 where
    undeclared. ``power_limit``: of each accelerator, in mW, 0 for none. ``slices``: where accelerators are cut (MIG),
    the profile of each slice that a node offers."""

    accelerator: str = ""
    cpu: str = ""
    count: int = 0
    nodes: int = 0
    power_limit: int = 0
    slices: tuple[str, ...] = ()


class SpecField(Generic[T]):
    """A field of a spec as an attribute of settings. ``read``: its value from settings, or the default."""

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
    """Fields of a cell, and of its system, as every reader of its settings by name has them."""

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
    """By flat name. A name that is not declared reads as the default, like one that is declared as nothing."""

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
        """Durations are declared in any unit, and kept in ms."""
        found = self.values.get(name)
        return default if found is None else float(str(found)) / _MILLISECONDS

    def get_words(self, name: str) -> tuple[str, ...]:
        """Get the words of a list, such as a command."""
        found = self.values.get(name)
        return tuple(map(str, found)) if isinstance(found, list | tuple) else ()

    def get_below(self, prefix: str) -> dict[str, object]:
        """Get the settings that begin with the prefix, without it."""
        return {name.removeprefix(prefix): value for name, value in self.values.items() if name.startswith(prefix)}

    @property
    def launcher(self) -> Launcher:
        """Words of the system before each process of ours on its machine; none where it has none."""
        if self.get_text(PYTHON) == NO_PYTHON:
            return Launcher()
        return Launcher(self.get_words(LAUNCHER), self.get_text(PYTHON))

    @property
    def bare_launcher(self) -> Launcher:
        """Words before declared commands alone, where the image behind them has nothing of ours."""
        return Launcher(self.get_words(LAUNCHER) if self.get_text(PYTHON) == NO_PYTHON else ())

    @property
    def runs_here(self) -> bool:
        """True where the system's commands run on this machine. Every other place to run is declared here, and nowhere
        else."""
        return not self.launcher.words and not self.is_queued

    @property
    def queue(self) -> str:
        """The one that gives its machines out; "" for none."""
        return find_queue(self.values)

    @property
    def is_queued(self) -> bool:
        """True where a queue gives its machines out: then they cannot be seen before a job runs there."""
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
    """Settings of one cell, with those of its system; of a run, also the values that the round adds."""

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
        """Get a text of a part of the harness; without one of its own it has that of the harness."""
        return self.get_text(f"{part}.{name}") or self.get_text(f"{HARNESS}.{name}")

    def list_part_environment(self, part: str) -> Iterator[tuple[str, str, bool]]:
        """Name, text and whether the text names a variable of the environment, which has the value."""
        for name, value in self.get_below(f"{part}.env.").items():
            yield (name, value, False) if isinstance(value, str) else (name, str(_second(value)), True)


def _second(value: object) -> object:
    assert isinstance(value, list | tuple)
    return value[1]


class SystemSettings(Settings, frozen=True):
    """Settings of one system. ``description``: the fields of its file in the tree, as the user wrote them."""

    category = text_of("system.category")
    status = text_of("system.status")
    original = text_of(ORIGINAL)
    nameplate = text_of(NAMEPLATE)

    description: Mapping[str, object] = field(default_factory=dict)


class StoreSettings(Struct, frozen=True):
    """An object store. An option is a value, or a pair that names the variable of the environment which holds it."""

    url: str
    options: Mapping[str, object]


class SubmissionSettings(Settings, frozen=True):
    """Settings for all cells: the submission's own (``embargo.until``, ``documents.calibration``, stores) and its
    systems. ``tree``: the declared place of the rendered tree. Of a benchmark ``code``: locations of what it publishes
    instead of the code of its runs; ``own_code``: of its own file, for runs that did not keep their code;
    ``excluded_code``: patterns of names that it does not publish."""

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
    """Runs with other settings than the spec's, or shorter ones, that never become results. ``settings`` of ``cell``,
    as they would be typed into the spec, by their path below it: ("run.batch_size", "8"). Without a cell, every cell's
    own settings. ``quick``: ms of its runs, which are then shorter than the round asks; 0 for none."""

    cell: Cell | None = None
    settings: tuple[tuple[str, str], ...] = ()
    quick: int = 0

    @property
    def length(self) -> str:
        return QUICK if self.quick else "full"
