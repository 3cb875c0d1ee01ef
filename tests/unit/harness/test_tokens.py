"""Tokens: what LoadGen learns of them, and answers that must not count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.benchmarks import load_benchmark
from harness.contract import Benchmark, Counter
from harness.errors import HarnessError
from harness.run.sut import Guard
from harness.run.tokens import MESSAGES, Sampling, Spoken, TokenCompleter, TokenSut
from harness.verbs.run import choose_sampling, load_generator
from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.summary import find_differing, parse_summary
from tests.unit.harness.children import run_python
from tests.unit.harness.token_child import COUNT, LENGTH

CHILD = Path(__file__).with_name("token_child.py")
CONF = "*.*.min_duration = 0\n*.*.min_query_count = 480\n*.*.performance_sample_count_override = 40\n"
RATES = "*.Server.target_qps = 2000\n*.Offline.target_qps = 2000\n*.SingleStream.target_latency = 1\n"


def run(scenario: str, mode: str, folder: Path) -> DetailLog:
    run_child(scenario, mode, folder)
    return parse_detail((folder / "mlperf_log_detail.txt").read_bytes())


def run_child(scenario: str, mode: str, folder: Path, *more: str) -> str:
    (folder / "user.conf").write_text(CONF + RATES, encoding="ascii")
    return run_python(folder, str(CHILD), scenario, mode, str(folder), *more)


def run_undisturbed(scenario: str, folder: Path) -> DetailLog:
    """A performance run, again where LoadGen found that the machine's clocks went at different speeds."""
    for _ in range(3):
        log = run(scenario, "performance", folder)
        if not any("system_clock" in str(line.value) for line in log.errors):
            break
    return log


def number(log: DetailLog, key: str) -> Decimal:
    return Decimal(str(log.get(key)))


@pytest.mark.parametrize("scenario", ["Server", "SingleStream"])
def test_token_metrics_follow_from_the_log_and_equal_its_summary(scenario: str, tmp_path: Path) -> None:
    """Answers are of one length, so that each latency is the first token's plus one gap for each further token."""
    pytest.importorskip("mlperf_loadgen")
    log = run_undisturbed(scenario, tmp_path)
    assert log.errors == ()
    assert log.validity == "VALID"
    latency, first, gap = (
        number(log, key)
        for key in (
            "result_mean_latency_ns",
            "result_first_token_mean_latency_ns",
            "result_time_to_output_token_mean",
        )
    )
    assert abs(first + gap * (LENGTH - 1) - latency) <= 2 * LENGTH  # each gap and each mean is cut to whole nanoseconds
    if scenario == "Server":
        samples = number(log, "result_completed_samples_per_sec")
        tokens = number(log, "result_completed_tokens_per_second")
        queries = number(log, "result_query_count")  # of the samples per second LoadGen leaves one out
        assert abs(tokens / samples / LENGTH - queries / (queries - 1)) < Decimal("0.0001")
        assert number(log, "requested_server_ttft_latency") == 2_000_000_000
        assert number(log, "requested_server_tpot_latency") == 100_000_000
    summary = parse_summary((tmp_path / "mlperf_log_summary.txt").read_bytes())
    assert [key for key in summary.values if "First Token" in key]
    assert list(find_differing(summary, log)) == []
    assert find_inconsistencies(log) == ()


@pytest.mark.parametrize("scenario", ["Server", "Offline"])
def test_accuracy_log_holds_the_token_ids_of_each_answer(scenario: str, tmp_path: Path) -> None:
    pytest.importorskip("mlperf_loadgen")
    log = run(scenario, "accuracy", tmp_path)
    assert log.errors == ()
    entries = json.loads((tmp_path / "mlperf_log_accuracy.json").read_text(encoding="ascii"))
    assert sorted(entry["qsl_idx"] for entry in entries) == list(range(COUNT))
    for entry in entries:
        tokens = np.frombuffer(bytes.fromhex(entry["data"]), np.int32)
        assert tokens.tolist() == [entry["qsl_idx"] + place for place in range(LENGTH)]
        assert entry["token_count"] == LENGTH
        if scenario == "Server":
            assert bytes.fromhex(entry["token_data"]) == tokens[:1].tobytes()


@pytest.mark.parametrize("mode", ["accuracy", "performance"])
def test_a_run_that_fails_before_a_first_token_ends_and_says_so(mode: str, tmp_path: Path) -> None:
    """LoadGen logs the first token of each answer, and does not ask whether there was one."""
    pytest.importorskip("mlperf_loadgen")
    assert run_child("Server", mode, tmp_path, "fails") == "the server is gone\n"


class Recorder:
    """What LoadGen would have been reported: ids by first token, and answers by id (None: without bytes)."""

    def __init__(self) -> None:
        self.firsts: list[tuple[int, list[int]]] = []
        self.answers: list[tuple[int, list[int] | None]] = []
        self.counts: list[int] = []

    def first(self, identity: int, token: np.ndarray) -> None:
        self.firsts.append((identity, token.tolist()))

    def complete(
        self, ids: Sequence[int], responses: Sequence[np.ndarray] | None, counts: Sequence[int] | None = None
    ) -> None:
        answer = None if responses is None else responses[0].tolist()
        self.answers += [(identity, answer) for identity in ids]
        self.counts += counts or []


class Sink:
    """Takes prompts and never answers."""

    def submit(self, identity: int, row: int) -> None:
        if row == 9:
            raise ConnectionError("gone")


class Rows:
    def rows(self, indices: list[int]) -> Any:
        return np.array(indices, np.intp)


Made = tuple[TokenCompleter, Recorder, Guard, TokenSut]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return make(tmp_path)


def make(folder: Path, **changed: Any) -> Made:
    recorder, guard = Recorder(), Guard()
    kind = {"dtype": "int64", "streaming": True, "logged": True, **changed}
    counter = Counter(folder / "counter")
    completer = TokenCompleter(recorder, Sampling(min_new_tokens=2, max_new_tokens=4), counter, guard, **kind)
    return completer, recorder, guard, TokenSut(Sink(), Rows(), completer, guard)  # type: ignore[arg-type]


def test_answer_that_comes_at_once_still_has_a_first_token(made: Made) -> None:
    completer, recorder, guard, sut = made
    sut.issue([50, 51], [3, 4])
    completer.completed(50, [7, 8, 9])
    completer.first(51, [5])
    completer.completed(51, [5, 6])
    assert recorder.firsts == [(50, [7]), (51, [5])]
    assert recorder.answers == [(50, [7, 8, 9]), (51, [5, 6])]
    assert guard.failure is None
    counts = completer.counts
    assert (counts.samples, counts.tokens, counts.shortest, counts.longest, counts.single) == (2, 5, 2, 3, 0)


@pytest.mark.parametrize(("report", "problem"), [("first", "twice"), ("completed", "not in flight")])
def test_prompt_answered_twice_fails_the_run_and_is_completed_once(report: str, problem: str, made: Made) -> None:
    completer, recorder, guard, sut = made
    sut.issue([50], [3])
    for _ in range(2):
        getattr(completer, report)(50, [7, 8])
    assert (recorder.firsts, len(recorder.answers)) == ([(50, [7, 8] if report == "first" else [7])], report != "first")
    assert problem in str(guard.failure)


@pytest.mark.parametrize(("tokens", "bound"), [([1], "at least 2"), ([1, 2, 3, 4, 5], "at most 4")])
def test_answers_of_a_wrong_length_fail_the_run(tokens: list[int], bound: str, made: Made) -> None:
    completer, recorder, guard, sut = made
    sut.issue([50], [3])
    completer.completed(50, tokens)
    assert recorder.answers == [(50, None)]
    assert f"an answer has {len(tokens)} tokens, and must have {bound}" in str(guard.failure)
    assert completer.counts.samples == 0


def test_after_a_failure_the_rest_is_answered_without_being_asked(made: Made) -> None:
    completer, recorder, guard, sut = made
    sut.issue([50, 51, 52], [3, 9, 4])
    assert isinstance(guard.failure, ConnectionError)
    completer.completed(50, [7, 8])  # it was asked before the failure
    assert sorted(recorder.answers) == [(50, None), (51, None), (52, None)]
    assert sorted(recorder.firsts) == [(50, [0]), (51, [0]), (52, [0])]


def test_number_of_tokens_alone_suffices_where_no_one_reads_them(tmp_path: Path) -> None:
    completer, recorder, guard, sut = make(tmp_path, logged=False)
    sut.issue([50], [3])
    completer.first(50, [7])
    completer.completed(50, 3)
    assert [len(answer or []) for _, answer in recorder.answers] == [3]
    assert guard.failure is None
    completer, recorder, guard, sut = make(tmp_path, logged=True)
    sut.issue([50], [3])
    completer.first(50, [7])
    completer.completed(50, 3)
    assert recorder.answers == [(50, None)]
    assert isinstance(guard.failure, HarnessError)


def test_spec_says_more_than_the_round_and_the_round_more_than_the_benchmark() -> None:
    own = {"max_new_tokens": 20, "min_new_tokens": 2, "stop": [5]}
    assert choose_sampling(own, {}, {}) == Sampling(min_new_tokens=2, max_new_tokens=20, stop=(5,))
    assert choose_sampling(own, {"max_new_tokens": 128}, {}).max_new_tokens == 128
    assert choose_sampling(own, {"max_new_tokens": 128}, {"max_new_tokens": 9}).max_new_tokens == 9
    with pytest.raises(HarnessError, match="does not define token selection"):
        choose_sampling({"penalty": 4}, {}, {})
    with pytest.raises(HarnessError, match="from 5 to 4"):
        choose_sampling({}, {"min_new_tokens": 5, "max_new_tokens": 4}, {})


def test_a_text_is_logged_as_the_benchmark_writes_it_and_counted_by_its_tokens(tmp_path: Path) -> None:
    write = lambda text: np.array([ord(sign) for sign in text], np.int64)  # noqa: E731
    completer, recorder, guard, _ = make(tmp_path, streaming=False, write_text=write)
    completer.expect(1)
    completer.completed(1, Spoken("abcdefg", 3))
    assert guard.failure is None
    assert (recorder.answers, recorder.counts) == ([(1, list(range(97, 104)))], [3])
    assert (completer.counts.samples, completer.counts.tokens) == (1, 3)


def load(backend: str, name: str, samples: str) -> None:
    """As a run does, of a round that measures whole answers."""
    prepared = SimpleNamespace(settings=SimpleNamespace(use_token_latencies=False, infer_token_latencies=False))
    request = SimpleNamespace(backend=backend, scenario="Server", model_key="x", settings={}, generation={})
    benchmark = load_benchmark(Benchmark(name=name))
    arrays = {samples: [np.zeros(3, np.uint8)]}
    load_generator(request, benchmark, arrays, prepared, None, Guard())  # type: ignore[arg-type]


def test_a_backend_is_asked_only_with_samples_that_it_takes() -> None:
    with pytest.raises(HarnessError, match="vllm does not support messages, which qwen3_vl needs") as caught:
        load("vllm", "qwen3_vl", MESSAGES)
    assert caught.value.fix.startswith("set engine.backend: openai,")
    with pytest.raises(HarnessError, match="has no input_ids, but rows"):
        load("openai", "qwen3_vl", "rows")
