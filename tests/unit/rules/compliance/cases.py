"""Passing and failing logs for every test, and what each must be judged. The verdicts were compared once with those of
the official verification scripts over these very cases."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.unit.rules.compliance.runs import ANSWERS, DETAIL, EOS, SUMMARY, edit, edit_answers, set_logged, set_summary

Change = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """``audit`` and the others name runs of RUNS; ``change`` gets the folder that holds performance/run_1, accuracy and
    audit. ``options`` go to the verdict: scenario, dtype, eos, limits, report."""

    test: str
    name: str
    passes: bool
    audit: str
    performance: str = ""
    accuracy: str = ""
    change: Change = lambda folder: None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.test}-{self.name}"

    def lay_out(self, runs: Path, folder: Path) -> None:
        """The logs as a results folder and an audit folder, changed."""
        for name, place in (
            (self.performance, "performance/run_1"),
            (self.accuracy, "accuracy"),
            (self.audit, "audit"),
        ):
            if name:
                shutil.copytree(runs / name, folder / place)
        self.change(folder)


def both(*changes: Change) -> Change:
    def apply(folder: Path) -> None:
        for change in changes:
            change(folder)

    return apply


def score(place: str, key: str, value: float, summary_key: str = "") -> Change:
    def change(folder: Path) -> None:
        set_logged(folder / place, key, value)
        if summary_key:
            set_summary(folder / place, summary_key, str(value))

    return change


def logged(place: str, key: str, value: Any) -> Change:
    return lambda folder: set_logged(folder / place, key, value)


def answers(place: str, change: Callable[[list[dict[str, Any]]], object]) -> Change:
    return lambda folder: edit_answers(folder / place, change)


def text(path: str, change: Callable[[str], str]) -> Change:
    return lambda folder: edit(folder / path, change)


REFERENCE, AUDIT = "performance/run_1", "audit"


def set_entry(number: int, **values: Any) -> Callable[[list[dict[str, Any]]], object]:
    return lambda entries: entries[number].update(values)


# -- TEST01 ---------------------------------------------------------------------------------------------------------

_RATE, _SS, _MS, _SRV = (
    *("result_samples_per_second", "early_stopping_latency_ss", "early_stopping_latency_ms"),
    "result_completed_samples_per_sec",
)


def _speeds(key: str, before: float, after: float) -> Change:
    return both(score(REFERENCE, key, before), score(AUDIT, key, after))


def case01(name: str, passes: bool, change: Change, scenario: str = "Offline", **extra: Any) -> Case:
    options = {"dtype": extra.pop("dtype", "int32")}
    audit = extra.pop("audit", f"TEST01/{scenario}")
    return Case("TEST01", name, passes, audit, f"performance/{scenario}", "accuracy", change, options)


_EQUAL = _speeds(_RATE, 1000.0, 1000.0)


def _error_line(place: str) -> Change:
    line = ':::MLLOG {"key": "error_runtime", "value": "oh", "metadata": {"is_error": true, "is_warning": false}}\n'
    return both(logged(place, "num_errors", 1), text(f"{place}/{DETAIL}", lambda before: before + line))


TEST01 = (
    case01("equal", True, _EQUAL),
    case01("equal-bytes", True, _EQUAL, dtype="byte"),
    case01("exactly-10-percent-slower", True, _speeds(_RATE, 1000.0, 900.0)),
    case01("exactly-10-percent-faster", True, _speeds(_RATE, 1000.0, 1100.0)),
    case01("more-than-10-percent-slower", False, _speeds(_RATE, 1000.0, 899.99)),
    case01("more-than-10-percent-faster", False, _speeds(_RATE, 1000.0, 1100.1)),
    case01("server", True, _speeds(_SRV, 2000.0, 1990.0), "Server"),
    case01("server-slower", False, _speeds(_SRV, 2000.0, 1700.0), "Server"),
    case01(
        "server-other-latency",
        False,
        both(_speeds(_SRV, 2000.0, 2000.0), logged(AUDIT, "effective_target_latency_ns", 10_000_000)),
        "Server",
    ),
    case01("single-stream-short-20-percent", True, _speeds(_SS, 200_000, 240_000), "SingleStream"),
    case01("single-stream-short-more", False, _speeds(_SS, 200_000, 240_001), "SingleStream"),
    case01("single-stream-long-11-percent", False, _speeds(_SS, 300_000, 333_000), "SingleStream"),
    case01("multi-stream-short-20-percent", True, _speeds(_MS, 1_600_000, 1_300_000), "MultiStream"),
    case01("multi-stream-long-15-percent", False, _speeds(_MS, 1_700_000, 1_955_000), "MultiStream"),
    case01("audit-invalid", False, both(_EQUAL, logged(AUDIT, "result_validity", "INVALID"))),
    case01("performance-invalid", False, both(_EQUAL, logged(REFERENCE, "result_validity", "INVALID"))),
    case01("other-scenario", False, lambda folder: None, audit="TEST01/Server"),
    case01("error-line", False, both(_EQUAL, _error_line(AUDIT))),
    case01("one-answer-differs", False, _EQUAL, audit="TEST01/other"),
    case01("high-bytes-differ", False, _EQUAL, audit="TEST01/high-bytes"),
    case01("high-bytes-differ-unseen", True, _EQUAL, audit="TEST01/high-bytes", dtype="byte"),
    case01("ragged", False, _EQUAL, audit="TEST01/ragged"),
    case01("empty-answer", False, both(_EQUAL, answers(AUDIT, set_entry(0, data="")))),
    case01(
        "samples-missing-in-accuracy", True, both(_EQUAL, answers("accuracy", lambda e: e.__delitem__(slice(0, 20))))
    ),
    case01(
        "accuracy-repeats-a-sample",
        True,
        both(_EQUAL, answers("accuracy", lambda e: e.append({**e[0], "data": "00000000"}))),
    ),
    case01("nothing-logged", False, both(_EQUAL, answers(AUDIT, lambda e: e.clear()))),
    case01("no-sample-in-common", False, both(_EQUAL, answers("accuracy", lambda e: e.clear()),
        answers(AUDIT, lambda e: e.__delitem__(slice(1, None))))),
    # The script compares answers of the audit run with each other where the accuracy run has none.
    case01("only-its-own-repeats", False, both(_EQUAL, answers("accuracy", lambda e: e.clear()))),
    case01(
        "accuracy-truncated", False,
        both(_EQUAL, text(f"accuracy/{ANSWERS}", lambda t: t[:2000] + "\n\n...\n\n" + t[-2000:])),
    ),
    case01("not-a-number", False, both(_EQUAL, answers(AUDIT, set_entry(0, data="0000C07F"))), dtype="float32"),
)  # fmt: skip

# -- TEST04 ---------------------------------------------------------------------------------------------------------

_SUMMARY_KEYS = {
    "Offline": "Samples per second",
    "Server": "Completed samples per second",
    "SingleStream": "* Early stopping 90.0th percentile estimate",
    "MultiStream": "* Early stopping 99.0th percentile estimate",
}


def case04(name: str, passes: bool, scenario: str, before: str, after: str, change: Change | None = None) -> Case:
    def apply(folder: Path) -> None:
        key = _SUMMARY_KEYS[scenario]
        set_summary(folder / REFERENCE, key, before)
        set_summary(folder / AUDIT, key, after)
        if change is not None:
            change(folder)

    return Case("TEST04", name, passes, f"TEST04/{scenario}", f"performance/{scenario}", change=apply)


def _valid(place: str, word: str) -> Change:
    return lambda folder: set_summary(folder / place, "Result is", word)


def _without(place: str, words: str) -> Change:
    def cut(before: str) -> str:
        return "".join(line for line in before.splitlines(keepends=True) if words not in line)

    return text(f"{place}/{SUMMARY}", cut)


TEST04 = (
    case04("offline-equal", True, "Offline", "1000", "1000"),
    case04("offline-slower", True, "Offline", "1000", "200"),
    case04("offline-9-percent-faster", True, "Offline", "1000", "1099.99"),
    case04("offline-10-percent-faster", False, "Offline", "1000", "1100"),
    case04("offline-faster", False, "Offline", "1.2e+06", "1.5e+06"),
    case04("server-equal", True, "Server", "2000.00", "1990.00"),
    case04("server-faster", False, "Server", "2000.00", "2300.00"),
    case04("single-stream-equal", True, "SingleStream", "1000000", "1000000"),
    case04("single-stream-15-percent-faster", True, "SingleStream", "1000000", "870000"),
    case04("single-stream-25-percent-faster", False, "SingleStream", "1000000", "800000"),
    case04("single-stream-very-short-15-percent-faster", False, "SingleStream", "4000", "3478"),
    case04("multi-stream-15-percent-faster", True, "MultiStream", "1000000", "870000"),
    case04("multi-stream-30-percent-faster", False, "MultiStream", "1000000", "769000"),
    case04("server-slower", True, "Server", "2000.00", "400.00"),
    case04("single-stream-slower", True, "SingleStream", "1000000", "9000000"),
    case04("multi-stream-slower", True, "MultiStream", "1000000", "4000000"),
    case04("audit-invalid", False, "Offline", "1000", "1000", _valid(AUDIT, "INVALID")),
    case04("performance-invalid", False, "Offline", "1000", "1000", _valid(REFERENCE, "INVALID")),
    case04("no-score", False, "SingleStream", "1000", "1000", _without(REFERENCE, "90.0th percentile estimate")),
    Case("TEST04", "other-scenario", False, "TEST04/Server", "performance/Offline"),
    # The script takes an audit run without a score for a slow one.
    Case(
        "TEST04",
        "no-score-in-the-audit",
        False,
        "TEST04/Offline",
        "performance/Offline",
        change=_without(AUDIT, "Samples per second:"),
    ),
)

# -- TEST06 ---------------------------------------------------------------------------------------------------------


def _packed(*tokens: float, code: str = "i") -> str:
    return struct.pack(f"<{len(tokens)}{code}", *tokens).hex().upper()


def case06(name: str, passes: bool, scenario: str = "Server", change: Change | None = None, **options: Any) -> Case:
    audit = options.pop("audit", f"TEST06/{scenario}")
    given = {"scenario": scenario, "dtype": "int32", "eos": EOS, **options}
    return Case("TEST06", name, passes, audit, change=change or (lambda folder: None), options=given)


def _first_entry(**values: Any) -> Change:
    return answers(AUDIT, set_entry(0, **values))


def _drop(name: str) -> Change:
    return answers(AUDIT, lambda entries: entries[3].pop(name))


TEST06 = (
    case06("server", True),
    case06("offline", True, "Offline"),
    case06("single-stream", True, "SingleStream"),
    case06("int64", True, audit="TEST06/int64", dtype="int64"),
    case06("int64-read-as-int32", False, audit="TEST06/int64"),
    case06("other-end-of-sequence", True, eos=17),
    case06("one-end", True, "Offline", _first_entry(data=_packed(10, 11, EOS), token_count=3)),
    case06("two-ends", False, "Offline", _first_entry(data=_packed(10, 11, EOS, EOS), token_count=4)),
    case06("two-ends-of-another-sort", True, "Offline", _first_entry(data=_packed(10, 11, 5, 5), token_count=4)),
    case06("an-end-in-the-middle", True, "Offline", _first_entry(data=_packed(10, EOS, EOS, 5, EOS), token_count=5)),
    case06("nothing-but-two-ends", True, "Offline", _first_entry(data=_packed(EOS, EOS), token_count=2)),
    case06("nothing-but-three-ends", False, "Offline", _first_entry(data=_packed(EOS, EOS, EOS), token_count=3)),
    case06("wrong-first-token", False, "Server", _first_entry(token_data=_packed(11))),
    case06("wrong-first-token-offline", True, "Offline", _first_entry(token_data=_packed(11))),
    case06("several-first-tokens", True, "Server",
        _first_entry(data=_packed(10, 11, 2), token_data=_packed(10, 11), token_count=3)),
    case06("no-first-token", False, "Server", _drop("token_data")),
    case06("empty-first-token", True, "Server", _first_entry(token_data="")),
    case06("wrong-length", False, "Server", _first_entry(token_count=99)),
    case06("cut-token", False, "Server", _first_entry(data="0A00000002")),
    case06("no-length", False, "Offline", _drop("token_count")),
    case06("interactive", True, "Interactive", audit="TEST06/Server"),
    case06("first-token-of-another-answer", False, "SingleStream", _first_entry(token_data=_packed(10, 99))),
    case06("one-token-too-few", False, "Offline", _first_entry(data=_packed(10, EOS), token_count=3)),
    # The script finds nothing wrong with no answers.
    case06("no-answers", False, "Offline", answers(AUDIT, lambda entries: entries.clear())),
    case06("cut-log", False, "Server", text(f"audit/{ANSWERS}", lambda t: t[: len(t) // 2])),
)  # fmt: skip

# -- TEST07 ---------------------------------------------------------------------------------------------------------


def case07(name: str, passes: bool, report: str, threshold: str = "60.698") -> Case:
    options = {"report": report, "limits": {"threshold": threshold}}
    return Case("TEST07", name, passes, "TEST06/Offline", options=options)


TEST07 = (
    case07("above", True, "scored 990 answers\n{'exact_match': 61.0, 'tokens_per_sample': 1000}\n"),
    case07("at-the-threshold", True, "'exact_match': 60.698\n"),
    case07("below", False, "'exact_match': 60.697\n"),
    case07("far-below", False, "'exact_match': 2\n"),
    case07("zero", False, "'exact_match': 0.0\n"),
    case07("other-threshold", True, "'exact_match': 12.5\n", "12.5"),
    case07("other-threshold-missed", False, "'exact_match': 12.49\n", "12.5"),
    case07("no-score", False, "accuracy is fine\n"),
    case07("nothing", False, ""),
    case07("no-number", False, "'exact_match': nan\n"),
    case07("two-points", False, "'exact_match': 61.0.1\n"),
    case07("first-counts", False, "'exact_match': 10\n'exact_match': 90\n"),
    case07("in-the-middle-of-a-line", True, "results: {'other': 1, 'exact_match': 90}\n"),
    case07("whole-number", True, "'exact_match': 61\n"),
    case07("perfect", True, "'exact_match': 100.0\n"),
    case07("blanks-before-the-number", True, "'exact_match':      75.5\n"),
    case07("no-blank-before-the-number", True, "{'exact_match':75.5}\n"),
    case07("behind-much-talk", True, "loading\n" * 500 + "'exact_match': 60.7\n" + "done\n" * 500),
    case07("a-second-score-below", True, "'exact_match': 90\n'exact_match': 10\n"),
    case07("claims-to-pass", False, "TEST PASSED, said the scorer\n'exact_match': 3\n"),
)

# -- TEST08 ---------------------------------------------------------------------------------------------------------


def _floats(change: Callable[[list[float]], object]) -> Callable[[list[dict[str, Any]]], object]:
    def apply(entries: list[dict[str, Any]]) -> None:
        data = bytes.fromhex(entries[0]["data"])
        values = list(struct.unpack(f"<{len(data) // 4}f", data))
        change(values)
        entries[0]["data"] = struct.pack(f"<{len(values)}f", *values).hex()

    return apply


def case08(name: str, passes: bool, change: Change) -> Case:
    return Case("TEST08", name, passes, "TEST08/audit", accuracy="TEST08/accuracy", change=change)


def _audit_values(change: Callable[[list[float]], object]) -> Change:
    return answers(AUDIT, _floats(change))


def _scaled(factor: float) -> Change:
    def scale(values: list[float]) -> None:
        values[2:] = [value * factor for value in values[2:]]

    return _audit_values(scale)


def _in_every_answer(at: int, value: float) -> Change:
    """Three numbers, as of ``at``."""

    def change(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            _floats(lambda v: v.__setitem__(slice(at, at + 3), [value] * 3))([entry])

    return answers("accuracy", change)


TEST08 = (
    case08("equal", True, lambda folder: None),
    case08("a-little-off", True, _scaled(1.0002)),
    case08("a-little-less", True, _scaled(0.9998)),
    case08("fewer-than-the-accuracy-run", True, answers(AUDIT, lambda e: e.__delitem__(slice(20, None)))),
    case08("one-sample", True, answers(AUDIT, lambda e: e.__delitem__(slice(1, None)))),
    case08("repeated", True, answers(AUDIT, lambda e: e.extend(e[:5]))),
    case08("in-other-order", True, answers(AUDIT, lambda e: e.reverse())),
    case08("more-than-a-little-off", False, _scaled(1.05)),
    case08("far-off", False, _audit_values(lambda v: v.__setitem__(2, 0.999))),
    case08("saturated", False, _audit_values(lambda v: v.__setitem__(slice(2, 5), [1.0, 0.0, 1.0]))),
    case08("unknown-query", False, _audit_values(lambda v: v.__setitem__(1, 9999))),
    case08("unknown-timestamp", False, _audit_values(lambda v: v.__setitem__(0, 9999))),
    case08("accuracy-lacks-a-sample", False, answers("accuracy", lambda e: e.pop())),
    case08("accuracy-in-other-order", True, answers("accuracy", lambda e: e.reverse())),
    case08("nothing-logged", False, answers(AUDIT, lambda e: e.clear())),
    case08("malformed-accuracy", False, answers("accuracy", _floats(lambda v: v.__setitem__(-1, 2)))),
    case08("two-predictions", False, _audit_values(lambda v: v.pop())),
    case08("four-predictions", False, _audit_values(lambda v: v.append(0.5))),
    case08("without-weights", True, _in_every_answer(8, 0.0)),
    case08("labels-all-alike", True, _in_every_answer(5, 1.0)),
    case08("cut-bytes", False, answers(AUDIT, set_entry(0, data="00"))),
    # The script's comparison with a value that is not a number never fails.
    case08("no-number", False, _audit_values(lambda v: v.__setitem__(2, float("nan")))),
    # The script compares one prediction with each of several.
    case08(
        "one-prediction-for-all", False, both(
            answers("accuracy", _floats(lambda v: v.__setitem__(slice(2, 5), [0.5, 0.5, 0.5]))),
            answers(AUDIT, lambda entries: [
                e.update(data=e["data"][:16] + struct.pack("<f", 0.5).hex())
                for e in entries if e["data"][:16] == entries[0]["data"][:16]
            ]),
        ),
    ),
)  # fmt: skip

# -- TEST09 ---------------------------------------------------------------------------------------------------------

# 100 answers of 2 to 9 tokens.


def case09(name: str, passes: bool, least: str, most: str, change: Change | None = None) -> Case:
    def all_of(length: int) -> Callable[[list[dict[str, Any]]], object]:
        return lambda entries: [entry.update(data=_packed(*range(length))) for entry in entries]

    change = change or answers(AUDIT, all_of(5))
    return Case(
        "TEST09", name, passes, "TEST06/Offline", change=change, options={"limits": {"least": least, "most": most}}
    )


def _lengths(*lengths: int) -> Change:
    def change(entries: list[dict[str, Any]]) -> None:
        for number, entry in enumerate(entries):
            entry["data"] = _packed(*range(lengths[number % len(lengths)]))

    return answers(AUDIT, change)


TEST09 = (
    case09("within", True, "4.5", "5.5"),
    case09("at-the-least", True, "5", "9"),
    case09("at-the-most", True, "1", "5"),
    case09("too-long", False, "1", "4.99"),
    case09("too-short", False, "5.01", "9"),
    case09("mean-of-two-lengths", True, "5.5", "5.5", _lengths(5, 6)),
    case09("mean-below", False, "5.51", "9", _lengths(5, 6)),
    case09("mean-above", False, "1", "5.49", _lengths(5, 6)),
    case09("empty-answers-count", False, "4.5", "5.5", _lengths(5, 0)),
    case09("empty-answers-in-the-mean", True, "2.5", "2.5", _lengths(5, 0)),
    case09("nothing-logged", False, "0", "9", answers(AUDIT, lambda e: e.clear())),
    case09(
        "half-a-token", True, "5", "5",
        answers(AUDIT, lambda entries: [e.update(data=_packed(*range(5)) + "0000") for e in entries]),
    ),
    case09("three-lengths", True, "3.99", "3.99", _lengths(3, 4, 5)),
    case09("one-long-answer-in-many", True, "5", "6", _lengths(5, 5, 5, 7)),
    case09("single-tokens", True, "1", "1", _lengths(1)),
    case09("nothing-but-empty-answers", False, "0.01", "9", _lengths(0)),
    case09("three-lengths-below", False, "4.3", "9", _lengths(3, 4, 5)),
    case09("long-answers", False, "1", "1406", _lengths(2000)),
    case09("as-logged", True, "4", "7", lambda folder: None),
    case09("as-logged-too-strict", False, "1278", "1406", lambda folder: None),
)  # fmt: skip

CASES = TEST01 + TEST04 + TEST06 + TEST07 + TEST08 + TEST09
