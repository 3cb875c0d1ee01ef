"""Run one LoadGen test in this process; callbacks never raise into LoadGen, and no other module imports it.

A process runs one test only. LoadGen counts the files passed as user.conf in a process-wide variable, and silently
ignores the built-in mlperf.conf for the second one; an exception that escapes from a callback leaves LoadGen's threads
running.
"""

from __future__ import annotations

import gc
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlperf_loadgen as lg  # never mlcommons_loadgen: importing that package hides this module
import numpy as np

from harness.catalog import CONF, LOADGEN
from harness.child.digests import hash_file
from harness.contract import Fact, Mode, Scenario, as_evidence
from harness.errors import HarnessError
from harness.machine.facts import find_distribution_version
from harness.run.qsl import SampleLibrary
from harness.run.sut import Guard, Sut

_BUILT_IN, _USER, _OTHER = 0, 1, 2  # FromConfig's kinds of file
_BEFORE_KINDS = {_BUILT_IN: True, _USER: False}  # up to 5.0.5 the argument says whether the file is the built-in one
_REFUSALS = {-2: "the file is missing", -22: "the file has a syntax error; comments must be on separate lines"}
_SWITCH_SECONDS = 1e-4  # by default a busy Python thread can block LoadGen's for 5 ms
ACCURACY_SERVER_QPS = 100_000.0
SEEDS = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One LoadGen test. ``audit_config`` "" disables LoadGen's search for one."""

    scenario: Scenario
    mode: Mode
    model_key: str
    user_conf: Path
    log_dir: Path
    audit_config: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Settings ready for a test. ``overrides``: settings that differ from the conf files, as setting -> [conf,
    used]."""

    test: Test
    settings: Any
    overrides: dict[str, list[float]] = field(default_factory=dict)

    def read(self, name: str, unseen: int = 0) -> int:
        """Read a setting; ``unseen`` if this release does not expose it to Python (0 is LoadGen's value for unset)."""
        value: int = getattr(self.settings, name, unseen)
        return value

    @property
    def logs_responses(self) -> bool:
        """Return True if LoadGen will read the bytes of any response."""
        settings = self.settings
        return bool(
            settings.mode != lg.TestMode.PerformanceOnly
            or self.read("accuracy_log_sampling_target")
            or settings.accuracy_log_probability
            or self.test.audit_config
        )

    def estimate_samples(self, total_count: int) -> int:
        """Estimate how many samples the test will issue, for a progress display only."""
        settings = self.settings
        if settings.mode == lg.TestMode.AccuracyOnly:
            return int(self.read("accuracy_sample_count_override") or total_count)
        seconds, least, scenario = settings.min_duration_ms / 1e3, settings.min_query_count, self.test.scenario
        if scenario == "SingleStream":
            return int(max(least, seconds * 1e9 / settings.single_stream_expected_latency_ns))
        if scenario == "MultiStream":
            queries = max(least, seconds * 1e9 / settings.multi_stream_expected_latency_ns)
            return int(queries * settings.multi_stream_samples_per_query)
        if scenario == "Server":
            return int(max(least, seconds * settings.server_target_qps))
        return int(max(least, 1.1 * seconds * settings.offline_expected_qps))

    def snapshot(self) -> dict[str, int | float | bool | str]:
        """Return every setting after all files, re-read from LoadGen; enumerations by name."""
        names = (name for name in dir(self.settings) if not name.startswith("_") and name != "FromConfig")
        values = ((name, getattr(self.settings, name)) for name in names)
        return {name: value if isinstance(value, int | float) else value.name for name, value in values}


def prepare(test: Test) -> Prepared:
    """Read the conf files exactly once. Raises HarnessError when LoadGen refuses one, or the log folder is missing.

    LoadGen paces accuracy runs of the Server scenario by target_qps too, although their latencies are irrelevant: the
    rate is raised so that the run takes only as long as the computation. user.conf is unchanged; ``overrides`` has the
    new rate.
    """
    if not test.log_dir.is_dir():
        raise HarnessError(f"the log folder does not exist: {test.log_dir}", "input", "create it before the run")
    settings = lg.TestSettings()
    if _locate_conf() is not None:
        _apply(settings, "", test.model_key, test.scenario, _BUILT_IN)
    _apply(settings, str(test.user_conf), test.model_key, test.scenario, _USER)
    settings.scenario = getattr(lg.TestScenario, test.scenario)
    settings.mode = lg.TestMode.AccuracyOnly if test.mode == "accuracy" else lg.TestMode.PerformanceOnly
    if test.audit_config:
        # LoadGen itself applies only the lines for all models ("*"); lines for one model need this call.
        _apply(settings, test.audit_config, test.model_key, test.scenario, _OTHER)
        _set_seeds(settings, Path(test.audit_config))
    overrides: dict[str, list[float]] = {}
    declared = settings.server_target_qps
    if test.mode == "accuracy" and test.scenario == "Server" and declared < ACCURACY_SERVER_QPS:
        settings.server_target_qps = ACCURACY_SERVER_QPS
        overrides["server_target_qps"] = [declared, ACCURACY_SERVER_QPS]
    return Prepared(test=test, settings=settings, overrides=overrides)


def _set_seeds(settings: Any, audit_config: Path) -> None:
    """Set TEST05's own seeds. Since LoadGen has a built-in configuration, it reads seeds only from that."""
    for line in audit_config.read_text(encoding="utf-8").splitlines():
        name, _, value = line.removeprefix("*.*.").partition(" = ")
        if name in SEEDS:
            setattr(settings, name, int(value))


def _apply(settings: Any, path: str, model_key: str, scenario: str, kind: int) -> None:
    code = _read_conf(settings, path, model_key, scenario, kind)
    if code:
        fix = "render the file again" if path else "install the round's LoadGen with it: reconcile doctor"
        why = _REFUSALS.get(code, f"code {code}")
        raise HarnessError(f"LoadGen rejected {path or 'the mlperf.conf next to it'}: {why}", "input", fix)


def _read_conf(settings: Any, path: str, model_key: str, scenario: str, kind: int) -> int:
    """Call FromConfig by keyword, since a release whose argument has another meaning would mistake the value for a kind
    of file, and read another file."""
    parameter = settings.FromConfig.__doc__ or ""
    if "conf_type" in parameter:
        found = settings.FromConfig(path, model_key, scenario, conf_type=kind)
    elif "is_mlperf_conf" in parameter and kind in _BEFORE_KINDS:
        found = settings.FromConfig(path, model_key, scenario, is_mlperf_conf=_BEFORE_KINDS[kind])
    elif (conf := _locate_conf()) is not None:
        found = settings.FromConfig(path or str(conf), model_key, scenario)
    else:
        release = find_distribution_version(*LOADGEN)
        fix = "install LoadGen 5.0.6 or newer, of the round: reconcile doctor"
        raise HarnessError(f"LoadGen {release} cannot read {path or 'the settings of the round'}", "input", fix)
    return int(found)


def _locate_conf() -> Path | None:
    """Find the round's mlperf.conf next to a library without a built-in one (up to 4.1.7), which reads every file
    alike. Return None if the library requires a kind of file."""
    signature = (lg.TestSettings.FromConfig.__doc__ or "").partition("\n")[0]
    return None if "conf" in signature else Path(lg.__file__).with_name(CONF)


def run_test(prepared: Prepared, sut: Sut, library: SampleLibrary) -> None:
    """Run to the end. Returns normally whatever the verdict, which is in the detail log."""
    test = prepared.test
    log_settings = lg.LogSettings()
    log_settings.log_output.outdir = str(test.log_dir)
    log_settings.enable_trace = False
    # Up to the sources of round v2.0, LoadGen also reports all latencies, which its log contains anyway.
    reports = [lambda _: None] if "arg2" in (lg.ConstructFastSUT.__doc__ or "") else []
    sut_handle = lg.ConstructFastSUT(sut.issue, sut.flush, *reports)
    qsl_handle = lg.ConstructQSL(library.total_count, library.performance_count, library.load, library.unload)
    with _avoid_interruptions():
        lg.StartTestWithLogSettings(sut_handle, qsl_handle, prepared.settings, log_settings, test.audit_config)
    lg.DestroyQSL(qsl_handle)
    lg.DestroyFastSUT(sut_handle)


@contextmanager
def _avoid_interruptions() -> Iterator[None]:
    """Disable garbage collection, which would scan millions of list entries, and switch between Python threads more
    often."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
        sys.setswitchinterval(interval)


class Responder:
    """Completes samples in bulk; any thread may call it.

    Response objects are reused: LoadGen copies them out of the list before it lets other threads run, and creating one
    costs three times as much. ``with_data`` false answers without bytes, when LoadGen would not read them. ``tokens``:
    the number of tokens in a row, which is passed to LoadGen if its release accepts it (since 4.0).
    """

    def __init__(self, *, with_data: bool, tokens: bool = False) -> None:
        self._with_data = with_data
        self._tokens = tokens and hasattr(lg.QuerySampleResponse, "n_tokens")
        self._spare: list[list[Any]] = []

    def complete(
        self,
        ids: Sequence[int],
        responses: np.ndarray | Sequence[np.ndarray] | None,
        counts: Sequence[int] | None = None,
    ) -> None:
        """``responses``: one C-contiguous row per id, or one array of any size per id; None answers without bytes.
        ``counts``: the number of tokens in each, if it differs from the number of values. Raises before any sample is
        completed.
        """
        count = len(ids)
        pool = self._take(count)
        if not self._with_data:
            for response, identity in zip(pool, ids, strict=False):
                response.id = identity
        elif responses is not None and not isinstance(responses, np.ndarray):
            for response, identity, answer in zip(pool, ids, responses, strict=False):
                response.id, response.data, response.size = identity, answer.ctypes.data, answer.nbytes
        else:
            address, size = (0, 0) if responses is None else _locate_rows(responses)
            addresses = range(address, address + size * count, size) if size else itertools.repeat(0, count)
            for response, identity, data in zip(pool, ids, addresses, strict=False):
                response.id, response.data, response.size = identity, data, size
        if self._tokens and counts is not None:
            for response, tokens in zip(pool, counts, strict=False):
                response.n_tokens = tokens
        elif self._tokens and isinstance(responses, np.ndarray):
            each = responses.size // count
            for response in pool:
                response.n_tokens = each
        elif self._tokens and responses is not None:
            for response, answer in zip(pool, responses, strict=False):
                response.n_tokens = answer.size
        lg.QuerySamplesComplete(pool if len(pool) == count else pool[:count])
        # ``responses`` must exist until here: LoadGen has now copied what it logs.
        self._spare.append(pool)

    def first(self, identity: int, token: np.ndarray) -> None:
        """Report the first token of an answer. LoadGen records the current time."""
        lg.FirstTokenComplete([lg.QuerySampleResponse(identity, token.ctypes.data, token.nbytes, token.size)])

    def _take(self, count: int) -> list[Any]:
        pool = self._spare.pop() if self._spare else []
        if len(pool) < count:
            pool.extend(lg.QuerySampleResponse(0, 0, 0) for _ in range(count - len(pool)))
        return pool


def _locate_rows(responses: np.ndarray) -> tuple[int, int]:
    """Return the address of the first row, and the bytes per row."""
    address: int = responses.__array_interface__["data"][0]
    return address, responses.nbytes // len(responses)


def collect_loadgen_facts() -> dict[str, Fact]:
    """Identify LoadGen: the version of the installed distribution, and the digests of its library and of its
    configuration, if that is a file."""
    conf = _locate_conf()
    found = {"loadgen.version": find_distribution_version(*LOADGEN), "loadgen.digest": hash_file(Path(lg.__file__))}
    return as_evidence(found | ({"loadgen.conf": hash_file(conf)} if conf is not None else {}))


def probe_seeds() -> dict[str, int]:
    """Find the seeds of the installed LoadGen from the detail log of a one-query run."""
    settings = lg.TestSettings()
    _apply(settings, "", "*", "SingleStream", _BUILT_IN)
    settings.scenario, settings.mode = lg.TestScenario.SingleStream, lg.TestMode.PerformanceOnly
    settings.min_duration_ms, settings.min_query_count = 0, 1
    settings.single_stream_expected_latency_ns, settings.performance_sample_count_override = 1_000_000, 0
    with tempfile.TemporaryDirectory() as folder:
        test = Test(scenario="SingleStream", mode="performance", model_key="*", user_conf=Path(), log_dir=Path(folder))
        library = SampleLibrary({"sample": np.zeros(1)}, lambda _: None, Guard().record)
        run_test(Prepared(test=test, settings=settings), _Echo(), library)
        lines = (Path(folder) / "mlperf_log_detail.txt").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]
    logged = {entry["key"]: entry["value"] for entry in entries}
    return {name: int(logged[f"effective_{name}"]) for name in SEEDS}


class _Echo:
    def __init__(self) -> None:
        self._responder = Responder(with_data=False)

    def issue(self, ids: list[int], _indices: list[int]) -> None:
        self._responder.complete(ids, None)

    def flush(self) -> None:
        """Nothing to do, since samples are answered at once."""
