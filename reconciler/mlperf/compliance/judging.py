"""One door to the verdicts: which test reads what, and the round's limits by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from reconciler.mlperf.accuracy import parse_accuracy
from reconciler.mlperf.compliance import test01, test04, test06, test07, test08, test09
from reconciler.mlperf.compliance.entries import Entry, read_entries
from reconciler.mlperf.compliance.legacy_tests import verify_test04_ab, verify_test05
from reconciler.mlperf.compliance.scores import Slack
from reconciler.mlperf.compliance.verdict import AuditVerdict, Part
from reconciler.mlperf.loadgen.log import DetailLog, parse_detail
from reconciler.mlperf.loadgen.summary import SummaryLog, parse_summary
from reconciler.mlperf.log_files import ACCURACY_LOG, BASELINE, COMPLIANCE, DETAIL, SUMMARY, VERIFY_PERFORMANCE

# TEST04 as two runs, before there was one.
UNIQUE, SAME = "TEST04-A", "TEST04-B"
AUDIT = "audit"  # the name of the test's own run among what its verdict is made from


@dataclass(frozen=True, slots=True)
class RunLogs:
    """The logs of one run, empty where they are not at hand. ``answers`` gives the lines of the whole accuracy log,
    from its beginning at each call; None where it is not at hand."""

    detail: bytes = b""
    summary: bytes = b""
    answers: Callable[[], Iterable[bytes]] | None = None

    def entries(self, run: str) -> Iterable[Entry]:
        if self.answers is None:
            raise MissingLogError(run)
        return read_entries(self.answers(), f"{ACCURACY_LOG} of the {run} run")

    def detail_log(self, run: str) -> DetailLog:
        if not self.detail:
            raise MissingLogError(run)
        return parse_detail(self.detail, f"{DETAIL} of the {run} run")

    def summary_log(self, run: str) -> SummaryLog:
        if not self.summary:
            raise MissingLogError(run)
        return parse_summary(self.summary, f"{SUMMARY} of the {run} run")


class MissingLogError(LookupError):
    """A verdict needs a log of a run (by its name), most often the whole accuracy log, and it is not at hand."""


@dataclass(frozen=True, slots=True)
class VerdictInputs:
    """What a verdict is made from. ``limits``: the round's, as decimal text. ``dtype`` "" is the official script's
    default. ``metrics``: the benchmark's accuracy metrics. ``reports``: what the scorer said, by file name.
    ``known_answers``: the comparison of answers as made before, for when the whole logs are not at hand."""

    audit: RunLogs
    performance: RunLogs = RunLogs()
    accuracy: RunLogs = RunLogs()
    scenario: str = ""
    dtype: str = ""
    eos_token_id: int = 2
    limits: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    reports: Mapping[str, str] = field(default_factory=dict)
    known_answers: Part | None = None

    def limit(self, name: str, default: str) -> Decimal:
        return Decimal(self.limits.get(name, default))

    def slack(self, name: str, default: str) -> Slack:
        return Slack(
            float(self.limit(name, default)),
            float(self.limit(f"{name}_when_short", "20")),
            float(self.limit("short_single_stream_latency", "200000")),
            float(self.limit("short_multi_stream_latency", "1600000")),
        )


def collect_verdict_inputs(
    inputs: Mapping[str, Any],
    runs: Mapping[str, RunLogs],
    scenario: str,
    metrics: Iterable[str],
    response: str = "",
    known: Mapping[str, Any] | None = None,
) -> VerdictInputs:
    """From the inputs of a verdict and its runs by their names. ``response``: what the audit run answered with;
    ``known``: reasons and figures of an earlier comparison of answers."""
    nothing = RunLogs()
    return VerdictInputs(
        audit=runs.get(AUDIT, nothing),
        performance=runs.get("performance", nothing),
        accuracy=runs.get("accuracy", nothing),
        scenario=scenario,
        dtype=choose_dtype(str(inputs["test"]), str(inputs.get("dtype", "")), response),
        eos_token_id=int(inputs.get("eos_token_id", 2)),
        limits={name.removeprefix("limit."): str(v) for name, v in inputs.items() if name.startswith("limit.")},
        metrics=tuple(metrics),
        known_answers=Part(tuple(known["reasons"]), known["figures"]) if known else None,
    )


def make_answers_part(question: VerdictInputs) -> Part:
    """TEST01's comparison of answers, made before where the logs are not at hand."""
    try:
        audit, accuracy = question.audit.entries("audit"), question.accuracy.entries("accuracy")
    except MissingLogError:
        if question.known_answers is None:
            raise
        return question.known_answers
    return test01.compare_answers(accuracy, audit, question.dtype or "byte")


def _test01(question: VerdictInputs) -> AuditVerdict:
    answers = make_answers_part(question)
    slack = question.slack("most_score_change", "10")
    speed = test01.compare_speed(
        question.performance.detail_log("performance"), question.audit.detail_log("audit"), slack
    )
    fallback = None
    if not answers.passed and {BASELINE, COMPLIANCE} <= set(question.reports):
        fallback = test01.compare_accuracies(_fallback(question))
    return test01.judge_test01(answers, speed, fallback)


def _fallback(question: VerdictInputs) -> test01.Fallback:
    stated = {}
    for name in (BASELINE, COMPLIANCE):
        report = parse_accuracy(question.reports[name], question.metrics, name)
        # The checkers read to the end: the last value of a metric counts.
        stated[name] = {metric: values[-1].value for metric, values in report.metrics.items() if values}
    usual = question.limits.get("most_accuracy_change", "1")
    allowed = {m: Decimal(question.limits.get(f"most_accuracy_change_{m}", usual)) for m in question.metrics}
    return test01.Fallback(stated[BASELINE], stated[COMPLIANCE], allowed)


def _test04(question: VerdictInputs) -> AuditVerdict:
    reference, audit = question.performance.summary_log("performance"), question.audit.summary_log("audit")
    return test04.judge_test04(reference, audit, question.slack("most_score_gain", "10"))


def _test04_ab(question: VerdictInputs) -> AuditVerdict:
    """The run with different samples stands for the performance run, that with the same ones for the test's."""
    return verify_test04_ab(question.performance.summary_log(UNIQUE), question.audit.summary_log(SAME))


def _test05(question: VerdictInputs) -> AuditVerdict:
    return verify_test05(question.performance.summary_log("performance"), question.audit.summary_log("audit"))


def _test06(question: VerdictInputs) -> AuditVerdict:
    return test06.judge_test06(
        question.audit.entries("audit"),
        question.scenario,
        eos_token_id=question.eos_token_id,
        dtype=question.dtype or "int32",
    )


def _test07(question: VerdictInputs) -> AuditVerdict:
    return test07.judge_test07(question.reports.get(COMPLIANCE, ""), Decimal(question.limits["least_accuracy"]))


def _test08(question: VerdictInputs) -> AuditVerdict:
    tolerance = float(question.limit("most_entropy_change", "0.1")) / 100
    return test08.judge_test08(question.accuracy.entries("accuracy"), question.audit.entries("audit"), tolerance)


def _test09(question: VerdictInputs) -> AuditVerdict:
    least, most = Decimal(question.limits["least_mean_tokens"]), Decimal(question.limits["most_mean_tokens"])
    return test09.judge_test09(question.audit.entries("audit"), least, most)


JUDGES: Mapping[str, Callable[[VerdictInputs], AuditVerdict]] = {
    "TEST01": _test01,
    "TEST04": _test04,
    UNIQUE: _test04_ab,
    "TEST05": _test05,
    "TEST06": _test06,
    "TEST07": _test07,
    "TEST08": _test08,
    "TEST09": _test09,
}
# Tests whose verdict reads the whole accuracy log: of the audit run, and of the accuracy run.
READS_ANSWERS: Mapping[str, tuple[str, ...]] = {
    "TEST01": ("audit", "accuracy"),
    "TEST06": ("audit",),
    "TEST07": ("audit",),
    "TEST08": ("audit", "accuracy"),
    "TEST09": ("audit",),
}
# Tests whose verdict keeps its comparison of answers, so that it can be made again without them.
KEEPS_ANSWERS = frozenset({"TEST01"})
# The verify files for which a test that also compares answers reads none.
ABOUT_SPEED: Mapping[str, str] = {"TEST01": VERIFY_PERFORMANCE}
# Tests whose answers are submitted as they are: truncation passes them over, and nobody asks for a hash.
SHOWN_WHOLE = frozenset({"TEST06"})


# What the official scripts offer to read the answers as.
DTYPES: Mapping[str, tuple[str, ...]] = {"TEST01": test01.DTYPES, "TEST06": test06.DTYPES}
# Tests whose verdict asks the benchmark's scorer: always, or when the answers differ.
SCORED, SCORED_WHEN_DIFFERENT = frozenset({"TEST07"}), frozenset({"TEST01"})


def choose_dtype(test: str, declared: str, response: str) -> str:
    """How a test's answers are read: as declared, else as what the run itself answered with where the test's script
    offers that type, else "" for the script's default."""
    return declared or (response if response in DTYPES.get(test, ()) else "")


def judge(test: str, question: VerdictInputs) -> AuditVerdict:
    """The verdict of a test. MissingLogError when a log that it needs is not at hand, LogError for a damaged one."""
    return JUDGES[test](question)
