"""Inputs of each kind, collected by one pure function per kind. Changing anything else makes nothing stale.

The functions read a cell's settings through a ``SettingsReader``, which records every requested name. The effect of a
spec field (the kinds it makes stale) is derived from those names, so the printed reference cannot be wrong.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Mapping
from functools import cache

from msgspec import Struct, field

from harness.benchmark_catalog import BENCHMARKS
from harness.catalog import BACKENDS, read_slices
from reconciler.desired.state import Pins
from reconciler.loadgen import keys
from reconciler.resource.inputs import DEFAULT, Input, Origin, Pin, PinKind, Value, make_source_pin
from reconciler.resource.kinds import PERFORMANCE, Address
from reconciler.resource.records import TRIAL
from reconciler.resource.settings import (
    ACCURACY_FROM,
    ANALYZER,
    DIRECTOR,
    DISCLOSING,
    MAXIMUM,
    MINIMUM,
    SLICES,
    STATE_EXPECT,
    CellFields,
)
from reconciler.rules.results.table import find_declared_format
from reconciler.storage.launch.adapters import select_identity
from reconciler.storage.launch.launcher import LAUNCHER


class SettingsReader(CellFields, Struct):
    """A cell's settings combined with the round's rules, and the pins. ``noted`` collects every requested name; None if
    that is not needed, as in nearly every compilation."""

    settings: Mapping[str, Value]
    rules: Mapping[str, Value]
    pins: Pins
    noted: set[str] | None = None
    known: dict[str, Value] = field(default_factory=dict)  # settings and rules combined, shared by a cell's readers
    ordered: list[str] = field(default_factory=list)  # sorted names of the settings, shared likewise
    unread: frozenset[str] = frozenset()  # settings that make nothing stale

    def __post_init__(self) -> None:
        if not self.known:
            self.known.update(self.rules)
            self.known.update(self.settings)

    def note(self, *names: str) -> None:
        if self.noted is not None:
            self.noted.update(names)

    def get(self, name: str) -> Value | None:
        if self.noted is not None:
            self.noted.add(name)
        return self.known.get(name)

    def get_text(self, name: str, default: str = "") -> str:
        if self.noted is not None:
            self.noted.add(name)
        found = self.known.get(name)
        return default if found is None or found.value is None else str(found.value)

    def start_fresh(self) -> SettingsReader:
        """Return the same reader without recorded names, so that each kind records only the settings it reads."""
        if self.noted is None:
            return self
        return SettingsReader(self.settings, self.rules, self.pins, set(), self.known, self.ordered, self.unread)

    def use_settings(self, settings: Mapping[str, Value], noted: set[str] | None) -> SettingsReader:
        """Return a reader with the same rules and pins, and other settings."""
        return SettingsReader(settings, self.rules, self.pins, noted, unread=self.unread)

    def take(self, *names: str) -> list[Input]:
        """Return the named settings that have a value, as inputs."""
        if self.noted is not None:
            self.noted.update(names)
        known = self.known
        return [Input(n, v.value, v.origin) for n in names if n in known and (v := known[n]).value is not None]

    def take_below(self, prefix: str, *, but: Container[str] = ()) -> list[Input]:
        """Return every setting below a prefix, sorted by name, except those in ``but``."""
        if self.noted is not None:
            self.noted.add(f"{prefix}.*")
        ordered = self.ordered
        if not ordered:
            ordered += sorted(self.settings)
        # "/" is the character after ".".
        begin, end = bisect_left(ordered, f"{prefix}."), bisect_left(ordered, f"{prefix}/")
        if begin == end:
            return []
        below = ((name, self.settings[name]) for name in ordered[begin:end] if name not in but)
        return [Input(name, value.value, value.origin) for name, value in below]

    def take_pinned(self, pin: Pin) -> list[Input]:
        """Return an input whose value comes from outside the spec: a source's digest, or a backend's version."""
        return self.pins.list_inputs({str(pin.kind): pin})

    def find_source_pin(self, kind: str) -> Pin | None:
        """Return the pin of ``model.path``, ``dataset.path`` or ``benchmark.path``; None if the path is not set. Its
        owner is the benchmark, or the test if it has its own dataset."""
        path = self.get_text(f"{kind}.path")
        name = self.get_text(f"{kind}.name") or self.benchmark
        return make_source_pin(kind, name, path) if path else None

    def find_version_pin(self) -> Pin:
        """Return the backend's version pin. Versions are pinned per system, since another machine may have another
        version."""
        return Pin(PinKind.VERSION, self.backend, self.system)


def make_upstream_input(name: str, address: Address, key: str) -> Input:
    """Make an input from an upstream resource. It enters by its key, not its bytes, so that rebuilding a lost engine
    reruns nothing."""
    return Input(name, key, Origin(str(address)), address)


def find_benchmark_code(reader: SettingsReader) -> list[Input]:
    """Identify a built-in benchmark by name and revision, and a user's own file by its bytes."""
    if pin := reader.find_source_pin("benchmark"):
        return [Input("benchmark.code", item.value, item.origin) for item in reader.take_pinned(pin)]
    found = reader.get("benchmark.code")
    if found is None:
        return []
    facts = BENCHMARKS.get(str(found.value))
    if facts is not None and facts.elsewhere:
        # Such code is known only by the benchmark it measures, so two benchmarks never share it.
        return [Input("benchmark.code", f"{found.value} {reader.benchmark}", found.origin)]
    return [Input("benchmark.code", f"{found.value} revision {facts.revision if facts else 0}", found.origin)]


def collect_source_inputs(reader: SettingsReader, kind: str) -> list[Input]:
    """Return the digest of the file at ``model.path`` or ``dataset.path``; the path is not part of the identity."""
    declared = reader.get(f"{kind}.sha256")
    pin = reader.find_source_pin(kind)
    if declared is not None and declared.value:
        return [Input("source", declared.value, declared.origin)]
    return reader.take_pinned(pin) if pin else []


def collect_backend_inputs(reader: SettingsReader) -> list[Input]:
    """Collect the backend, our revision of it, and its version: from the spec, else this machine, else the last
    record."""
    name = reader.backend
    inputs = reader.take("engine.backend", "engine.precision")
    facts = BACKENDS.get(name)
    if facts is not None and facts.revision != 1:
        inputs.append(Input("backend.revision", facts.revision))
    declared = reader.get("engine.version")
    if declared is not None and declared.value:
        return [*inputs, Input("version", declared.value, declared.origin)]
    return inputs + reader.take_pinned(reader.find_version_pin())


def collect_dataset_inputs(reader: SettingsReader) -> list[Input]:
    return (
        find_benchmark_code(reader) + collect_source_inputs(reader, "dataset") + reader.take_below("dataset.settings")
    )


def collect_model_inputs(reader: SettingsReader, dataset: Input | None) -> list[Input]:
    """``dataset``: set only if the model is trained or calibrated on it."""
    own = find_benchmark_code(reader) + collect_source_inputs(reader, "model") + reader.take_below("model.settings")
    return own + ([dataset] if dataset else [])


def collect_launcher_inputs(reader: SettingsReader) -> list[Input]:
    """Collect the environment in which the system's launcher runs commands; none without a launcher, or if it only
    selects a machine."""
    found = reader.get(LAUNCHER)
    words = select_identity(found.value) if found is not None else ()
    return [Input("launcher", words, found.origin)] if found is not None and words else []


def _collect_computing_inputs(reader: SettingsReader) -> list[Input]:
    """Collect the computing inputs of an engine, or of the runs of a backend that builds none."""
    options = reader.take_below("engine.options")
    return [*collect_backend_inputs(reader), *reader.take("engine.batch_size"), *options]


def collect_engine_inputs(reader: SettingsReader, model: Input) -> list[Input]:
    """Collect an engine's inputs. It belongs to a device model, not a system: two systems with the same accelerator
    share it."""
    device = reader.take("hardware.accelerator", "hardware.cpu")
    own = _collect_computing_inputs(reader)
    return [model, *own, *device, *_collect_slice_inputs(reader), *collect_launcher_inputs(reader)]


def _collect_slice_inputs(reader: SettingsReader) -> list[Input]:
    """Collect the profiles of partitioned GPUs that an engine is built for; their number does not matter."""
    found = reader.get(SLICES)
    if found is None:
        return []
    profiles = sorted(set(read_slices(str(found.value))))
    return [Input("mig.profiles", ", ".join(profiles), found.origin)]


def _collect_generation_inputs(reader: SettingsReader, mode: str) -> list[Input]:
    """Collect the round's rules for answers, for a backend that generates text."""
    facts = BACKENDS.get(reader.backend)
    if facts is None or not facts.generates:
        return []
    ruled = ((name.split("."), value) for name, value in reader.rules.items() if name.startswith("generation."))
    return [Input(f"generation.{at[2]}", value.value, value.origin) for at, value in ruled if at[1] in ("both", mode)]


def _take_run_settings(reader: SettingsReader) -> list[Input]:
    """Return the ``run`` settings that affect what a run measures."""
    return reader.take_below("run", but=reader.unread | _list_unread_options(reader.backend))


@cache
def _list_unread_options(backend: str) -> frozenset[str]:
    facts = BACKENDS.get(backend)
    options = facts.run.items() if facts is not None else ()
    return frozenset(f"run.options.{name}" for name, option in options if not option.identity)


def collect_driving_inputs(reader: SettingsReader) -> list[Input]:
    """Collect how a backend is driven in the background of a run, where nothing is measured."""
    return [*_take_run_settings(reader), *reader.take("engine.backend", keys.PERFORMANCE_SAMPLE_COUNT)]


def collect_run_inputs(
    reader: SettingsReader, scenario: str, mode: str, made_from: Input, dataset: Input
) -> list[Input]:
    """``made_from``: the engine, or the model if the backend builds none."""
    own = _collect_computing_inputs(reader) if made_from.name != "engine" else []
    cell = reader.get("cell")
    return [
        Input("scenario", scenario, cell.origin if cell else DEFAULT),
        Input("mode", mode),
        made_from,
        dataset,
        *own,
        *find_benchmark_code(reader),
        *reader.take(*find_declared_format(reader.settings).list_asked(mode, scenario, reader.settings)),
        *_take_run_settings(reader),
        *_collect_generation_inputs(reader, mode),
        *reader.take("system.name", "rehearsal", STATE_EXPECT, TRIAL),
        *reader.take_below("hardware"),
        *(_collect_meter_inputs(reader) if mode == PERFORMANCE else ()),
        *collect_launcher_inputs(reader),
    ]


def _collect_meter_inputs(reader: SettingsReader) -> list[Input]:
    """Collect whether power is measured, and with which analyzer."""
    found = reader.get(DIRECTOR)
    analyzer = reader.take(ANALYZER)
    return [Input("power.measured", True, found.origin), *analyzer] if found is not None else []


def collect_score_inputs(reader: SettingsReader, run: Input, dataset: Input) -> list[Input]:
    return [run, dataset, *find_benchmark_code(reader)]


def collect_result_inputs(reader: SettingsReader, upstreams: list[Input]) -> list[Input]:
    """Collect the rendered values that are not in logs: the measurements, the names, and the policy that selects the
    published run."""
    official = reader.take("benchmark.official", "policy.publish")
    own = [*reader.take_below("measurements"), *reader.take("model.retraining", "infer_from")]
    own += [item for name in DISCLOSING for item in reader.take_below(name)]
    own += reader.take(ACCURACY_FROM, MAXIMUM, MINIMUM)
    pin = reader.find_source_pin("power")
    power = [Input("power", item.value, item.origin) for item in reader.take_pinned(pin)] if pin else []
    return [*upstreams, *official, *own, *power]
