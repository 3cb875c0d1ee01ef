"""What a prepared LoadGen test will do, distinguished from LoadGen's own settings."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

lg = pytest.importorskip("mlperf_loadgen")

from harness.contract import Mode, Scenario  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from harness.run import loadgen  # noqa: E402
from harness.run.loadgen import Prepared, Responder, prepare  # noqa: E402
from tests.unit.harness.children import run_python  # noqa: E402

BRIEF = {"min_duration_ms": 2000, "min_query_count": 10}


def ready(scenario: Scenario = "Offline", mode: Mode = "performance", audit: str = "", **values: Any) -> Prepared:
    settings = lg.TestSettings()
    settings.mode = lg.TestMode.AccuracyOnly if mode == "accuracy" else lg.TestMode.PerformanceOnly
    for name, value in values.items():
        setattr(settings, name, value)
    test = loadgen.Test(
        scenario=scenario, mode=mode, model_key="*", user_conf=Path(), log_dir=Path(), audit_config=audit
    )
    return Prepared(test=test, settings=settings)


@pytest.mark.parametrize(
    ("scenario", "values", "samples"),
    [
        ("SingleStream", {**BRIEF, "single_stream_expected_latency_ns": 10_000_000}, 200),
        ("SingleStream", {**BRIEF, "single_stream_expected_latency_ns": 10**9}, 10),
        (
            "MultiStream",
            {**BRIEF, "multi_stream_expected_latency_ns": 10_000_000, "multi_stream_samples_per_query": 8},
            1600,
        ),
        ("MultiStream", {**BRIEF, "multi_stream_expected_latency_ns": 10**9, "multi_stream_samples_per_query": 8}, 80),
        ("Server", {**BRIEF, "server_target_qps": 50.0}, 100),
        ("Server", {**BRIEF, "server_target_qps": 1.0}, 10),
        ("Offline", {**BRIEF, "offline_expected_qps": 50.0}, 110),
        ("Offline", {**BRIEF, "offline_expected_qps": 1.0}, 10),
    ],
)
def test_samples_are_expected_by_rate_and_count(scenario: Scenario, values: dict[str, Any], samples: int) -> None:
    assert ready(scenario, **values).estimate_samples(7) == samples
    assert ready(scenario, "accuracy", **values).estimate_samples(7) == 7
    assert ready(scenario, "accuracy", accuracy_sample_count_override=5, **values).estimate_samples(7) == 5


@pytest.mark.parametrize(
    ("prepared", "logged"),
    [
        (ready(), False),
        (ready(mode="accuracy"), True),
        (ready(accuracy_log_sampling_target=1), True),
        (ready(accuracy_log_probability=0.5), True),
        (ready(audit="audit.config"), True),
    ],
    ids=["performance", "accuracy", "sampled", "by-chance", "audited"],
)
def test_responses_are_given_bytes_where_stand_inmay_log_them(prepared: Prepared, logged: bool) -> None:
    assert prepared.logs_responses is logged


class Completed:
    """Stand-in for LoadGen, and reads what it would: (id, bytes, tokens) of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[tuple[int, bytes, int]] = []
        monkeypatch.setattr(loadgen.lg, "QuerySamplesComplete", self._read)

    def _read(self, responses: Sequence[Any]) -> None:
        self.found = [(r.id, ctypes.string_at(r.data, r.size) if r.data else b"", r.n_tokens) for r in responses]


ROWS = np.arange(6, dtype=np.int8).reshape(2, 3)
RAGGED = [np.array([1, 2], np.int8), np.array([3], np.int8)]


@pytest.mark.parametrize(
    ("responses", "counts", "tokens", "completed"),
    [
        (ROWS, None, True, [(5, b"\0\1\2", 3), (9, b"\3\4\5", 3)]),
        (ROWS, [2, 1], True, [(5, b"\0\1\2", 2), (9, b"\3\4\5", 1)]),
        (RAGGED, None, True, [(5, b"\1\2", 2), (9, b"\3", 1)]),
        (RAGGED, [7, 8], True, [(5, b"\1\2", 7), (9, b"\3", 8)]),
        (ROWS, [2, 1], False, [(5, b"\0\1\2", 0), (9, b"\3\4\5", 0)]),
        (None, None, True, [(5, b"", 0), (9, b"", 0)]),
    ],
    ids=["rows", "counted-rows", "ragged", "counted-ragged", "no-tokens", "no-bytes"],
)
def test_each_sample_is_completed_with_its_own_bytes_and_tokens(
    responses: Any, counts: list[int] | None, tokens: bool, completed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = Completed(monkeypatch)
    responder = Responder(with_data=True, tokens=tokens)
    responder.complete([5, 9], responses, counts)
    assert stand_in.found == completed
    responder.complete([6], None if responses is None else responses[1:], counts and counts[1:])  # of kept objects
    assert stand_in.found == [(6, *completed[1][1:])]


# A process prepares one test only: LoadGen remembers which files it was given.
CHILD = """
import gc, json, sys
from pathlib import Path
from harness.errors import HarnessError
from harness.run.loadgen import Prepared, Responder, Test, prepare, probe_seeds, run_test

class Sut:
    def __init__(self):
        self.responder, self.seen = Responder(with_data=False), None
    def issue(self, ids, _):
        self.seen = [gc.isenabled(), gc.get_freeze_count() > 0, sys.getswitchinterval()]
        self.responder.complete(ids, None)
    def flush(self):
        pass

class Library:
    total_count = performance_count = 4
    def load(self, _):
        pass
    unload = load

def tell(case):
    if case == "seeds":
        return probe_seeds()
    folder = Path("logs")
    folder.mkdir()
    audit = "audit.config" if Path("audit.config").exists() else ""
    named = {"model_key": "resnet50", "user_conf": Path("user.conf"), "log_dir": folder, "audit_config": audit}
    test = Test(scenario=case[0], mode=case[1], **named)
    try:
        prepared = prepare(test)
    except HarnessError as error:
        return [str(error), error.problem_class, error.fix]
    if case[2:] == ["counts"]:
        return [prepared.settings.min_query_count, prepared.settings.min_duration_ms, prepared.settings.scenario.name]
    if len(case) == 2:
        return [prepared.settings.server_target_qps, prepared.overrides]
    before, sut = [gc.isenabled(), gc.get_freeze_count(), sys.getswitchinterval()], Sut()
    run_test(prepared, sut, Library())
    return [before, sut.seen, [gc.isenabled(), gc.get_freeze_count(), sys.getswitchinterval()]]

print(json.dumps(tell(json.loads(sys.argv[1]))))
"""


def describe(case: object, folder: Path, conf: str = "") -> Any:
    if conf:
        (folder / "user.conf").write_text(conf)
    return json.loads(run_python(folder, "-c", CHILD, json.dumps(case)))


@pytest.mark.parametrize(
    ("scenario", "mode", "declared", "used"),
    [
        ("Server", "accuracy", 50.0, 100_000.0),
        ("Server", "accuracy", 100_000.0, 100_000.0),
        ("Server", "accuracy", 200_000.0, 200_000.0),
        ("Server", "performance", 50.0, 50.0),
        ("Offline", "accuracy", 50.0, 50.0),
    ],
)
def test_an_accuracy_run_of_server_is_asked_as_fast_as_it_can_be(
    scenario: str, mode: str, declared: float, used: float, tmp_path: Path
) -> None:
    overrides = {} if used == declared else {"server_target_qps": [declared, used]}
    assert describe([scenario, mode], tmp_path, f"*.*.target_qps = {declared}\n") == [used, overrides]


def test_nothing_disturbs_a_run_and_all_is_as_before_after_it(tmp_path: Path) -> None:
    before, during, after = describe(
        ["Server", "performance", "run"],
        tmp_path,
        "*.Server.min_duration = 0\n*.*.min_query_count = 2\n*.Server.target_qps = 500\n",
    )
    assert before[:2] == [True, 0]
    assert during == [False, True, pytest.approx(1e-4)]
    assert after == before


# Attributes of TestSettings that a line of releases has not yet, and the parameter of its FromConfig for the kind of
# file: read from the wheels on PyPI.
_LATER = ("accuracy_log_sampling_target", "accuracy_sample_count_override", "sample_concatenate_permutation")
_TOKENS = ("use_token_latencies", "infer_token_latencies")
_SETTINGS = lg.TestSettings
RELEASES = {
    "2.1": ((*_LATER, *_TOKENS), ""),
    "4.0": ((*_LATER, _TOKENS[1]), ""),
    "4.1": (_LATER, "is_mlperf_conf"),
    "5.0.5": (_LATER, "is_mlperf_conf"),
    "5.0.6": (_LATER, "conf_type"),
    "5.1.2": (_LATER, "conf_type"),
    "6.0.3": (("accuracy_sample_count_override",), "conf_type"),
    "6.0.17": ((), "conf_type"),
}


def make_settings(release: str) -> type:
    """The real settings, as far as that release shows them to Python."""
    missing, parameter = RELEASES[release]

    class Settings:
        __slots__ = ("files", "real")

        def __init__(self) -> None:
            object.__setattr__(self, "real", _SETTINGS())
            object.__setattr__(self, "files", [])

        def __getattr__(self, name: str) -> Any:
            if name in missing:
                raise AttributeError(name)
            return getattr(self.real, name)

        def __setattr__(self, name: str, value: object) -> None:
            if name in missing:
                raise AttributeError(name)
            setattr(self.real, name, value)

        def FromConfig(self, path: str, model: str, scenario: str, **kind: Any) -> int:  # noqa: N802 - LoadGen's name
            assert set(kind) == {parameter} - {""}
            self.files.append((path, *kind.values()))
            read: int = self.real.FromConfig(path, model, scenario, conf_type=2)
            return read

    Settings.FromConfig.__doc__ = f"FromConfig(self, path: str, model: str, scenario: str, {parameter})"
    return Settings


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The real one would read the real library's: those up to 4.1.7 read the mlperf.conf next to them."""
    monkeypatch.setattr(lg, "TestSettings", make_settings(request.param))
    monkeypatch.setattr(lg, "__file__", str(tmp_path / "mlperf_loadgen.so"))
    (tmp_path / "mlperf.conf").write_text("m.*.performance_sample_count_override = 17\n*.Offline.target_qps = 1\n")
    return str(request.param)


def ask(folder: Path, mode: Mode = "performance", **more: str) -> loadgen.Test:
    conf = folder / "user.conf"
    return loadgen.Test(scenario="Offline", mode=mode, model_key="m", user_conf=conf, log_dir=folder, **more)


@pytest.mark.parametrize("mode", ["performance", "accuracy"])
def test_every_release_that_has_the_seeds_of_a_round_runs_it(release: str, mode: Mode, tmp_path: Path) -> None:
    conf = tmp_path / "user.conf"
    conf.write_text("m.Offline.target_qps = 7\nm.Offline.min_duration = 3000\n")
    prepared = prepare(ask(tmp_path, mode))
    if parameter := RELEASES[release][1]:
        assert prepared.settings.files == [(str(conf), {"is_mlperf_conf": False, "conf_type": 1}[parameter])]
    else:  # its settings of the round are in a file of their own
        assert prepared.settings.files == [(str(tmp_path / "mlperf.conf"),), (str(conf),)]
        assert prepared.settings.performance_sample_count_override == 17
    assert prepared.settings.offline_expected_qps == 7
    assert prepared.estimate_samples(41) == (41 if mode == "accuracy" else 100)
    assert prepared.logs_responses is (mode == "accuracy")


def test_a_release_whose_mlperf_conf_is_missing_refuses_the_run_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lg, "TestSettings", make_settings("4.0"))
    monkeypatch.setattr(lg, "__file__", str(tmp_path / "mlperf_loadgen.so"))
    with pytest.raises(HarnessError) as caught:
        prepare(ask(tmp_path))
    assert ("mlperf.conf" in str(caught.value), "doctor" in caught.value.fix) == (True, True)


def test_a_release_that_counts_no_tokens_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Response:
        __slots__ = ("data", "id", "size")

        def __init__(self, *_: int) -> None:
            pass

    found: list[Any] = []
    monkeypatch.setattr(loadgen.lg, "QuerySampleResponse", Response)
    monkeypatch.setattr(loadgen.lg, "QuerySamplesComplete", lambda pool: found.extend((r.id, r.size) for r in pool))
    Responder(with_data=True, tokens=True).complete([5, 9], RAGGED, [7, 8])
    assert found == [(5, 2), (9, 1)]


def test_compliance_tests_need_a_release_that_knows_their_file_apart(release: str, tmp_path: Path) -> None:
    conf, audit = tmp_path / "user.conf", tmp_path / "audit.config"
    conf.write_text("m.Offline.target_qps = 7\n")
    audit.write_text("*.*.mode = 2\n*.*.qsl_rng_seed = 5\n*.*.performance_issue_same = 1\n")
    asked = ask(tmp_path, audit_config=str(audit))
    if RELEASES[release][1] == "is_mlperf_conf":
        with pytest.raises(HarnessError) as caught:
            prepare(asked)
        assert "5.0.6" in caught.value.fix
        return
    settings = prepare(asked).settings
    assert settings.files[-1][0] == str(audit)
    assert [kind for _, *kind in settings.files] == ([[1], [2]] if RELEASES[release][1] else [[], [], []])
    assert (settings.qsl_rng_seed, settings.performance_issue_same) == (5, True)
