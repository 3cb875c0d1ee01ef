"""TEST01: answers in performance mode match those of accuracy mode, and logging them does not reduce speed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from msgspec import Struct

from reconciler.errors import LogError
from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_files import BASELINE, COMPLIANCE, VERIFY_ACCURACY, VERIFY_PERFORMANCE
from reconciler.resource.kinds import AUDIT
from reconciler.rules.accuracy import parse_accuracy
from reconciler.rules.compliance.definition import (
    AuditVerdict,
    ComplianceTest,
    MissingLogError,
    Part,
    VerdictInputs,
    merge_parts,
    render_verify_text,
)
from reconciler.rules.compliance.entries import Entry, locate_entry, measure
from reconciler.rules.compliance.scores import (
    Slack,
    describe_distance,
    find_unfit,
    measure_distance,
    read_from_detail,
    show_score,
)
from reconciler.rules.ruleset import BenchmarkRules

MOST_CHANGE = "most_score_change"  # the name of the round's limit
_FIRST_STRICT = 2  # LoadGen's release
DTYPES = ("byte", "float32", "int32", "int64")
USUAL = "byte"  # the official script's default
_LARGE = 1 << 24  # class numbers are smaller; float32 numbers other than 0 are larger when read as integers
ANY = "any"  # type unknown: compare as each type that the answer's length allows


class Fallback(Struct, frozen=True):
    """Accuracy of the samples logged by the audit run: ``baseline`` from the accuracy run, ``compliance`` from the
    audit run, by metric. ``allowed``: maximum difference in percent."""

    baseline: Mapping[str, Decimal]
    compliance: Mapping[str, Decimal]
    allowed: Mapping[str, Decimal]


def judge_test01(accuracy: Part, performance: Part, fallback: Part | None = None) -> AuditVerdict:
    """Judge both parts, which must both pass; if answers differ, their accuracy may still agree."""
    reasons = list(performance.reasons)
    notes: list[str] = []
    if not accuracy.passed:
        if fallback is None or not fallback.passed:
            reasons = [*accuracy.reasons, *(fallback.reasons if fallback else ()), *reasons]
        else:
            notes = [f"compared by accuracy, because {reason}" for reason in accuracy.reasons]
    parts = [("accuracy", accuracy), ("performance", performance)] + ([("fallback", fallback)] if fallback else [])
    against_accuracy = "TEST01: the audit run's answers against the accuracy run's"
    against_performance = "TEST01: the audit run's speed against the performance run's"
    return AuditVerdict(
        tuple(reasons),
        merge_parts(parts),
        by_speed=performance.by_speed and tuple(reasons) == performance.reasons,
        where=accuracy.where,
        by_type=accuracy.by_type,
        notes=tuple(notes),
        files={
            VERIFY_ACCURACY: render_verify_text(against_accuracy, accuracy),
            VERIFY_PERFORMANCE: render_verify_text(against_performance, performance),
        },
    )


def compare_answers(accuracy: Iterable[Entry], audit: Iterable[Entry], dtype: str = USUAL) -> Part:
    """Compare the first element of each logged answer with the accuracy run's first answer to the sample.

    ``dtype`` ANY: the answers' type is unknown, so they must match under every possible type. Samples found only in the
    audit run are counted but are not failures; at least one sample must be in both runs. Unlike the official script,
    this never compares answers of the audit run with each other, and fails if the type compares too little of them.
    """
    try:
        known: dict[int, bytes] = {}
        counts = {"accuracy": 0, "repeated": 0}
        for entry in accuracy:
            counts["accuracy"] += 1
            counts["repeated"] += entry.index in known
            known.setdefault(entry.index, entry.data)
        return _compare_logged(known, audit, dtype, counts)
    except (LogError, ValueError) as error:
        return Part((f"the answers cannot be compared: {error}",))


def _compare_logged(known: Mapping[int, bytes], audit: Iterable[Entry], dtype: str, counts: Mapping[str, int]) -> Part:
    logged = found = 0
    differing: list[int] = []
    unread = _Unread(0 if dtype == ANY else measure(dtype))
    where = ""
    for entry in audit:
        logged += 1
        other = known.get(entry.index)
        if other is None:
            continue
        found += 1
        if not _has_same_first(entry, Entry(entry.index, other), dtype):
            differing.append(entry.index)
            where = where or locate_entry(logged)
        elif dtype != ANY:
            unread.add(entry.index, other, entry.data, logged)
    reasons = []
    if by_type := not differing and unread.hides_many():
        differing, where = unread.differing, locate_entry(unread.first)
        reasons.append(unread.explain(dtype, found))
    elif differing:
        undeclared = ", compared as any type because none is declared" if dtype == ANY else ""
        reasons.append(f"{_count_differing(differing, found)}{undeclared}")
    if not found:
        reasons.append(f"none of the audit run's {logged} logged answers belongs to a sample of the accuracy run")
    figures = {
        "compared as": f"{dtype}, first element",
        "answers in the accuracy run": f"{counts['accuracy']} ({counts['repeated']} repeated)",
        "answers in the audit run": str(logged),
        "found in the accuracy run": str(found),
        "not in the accuracy run": str(logged - found),
        "differing": str(len(differing)),
    }
    return Part(tuple(reasons), figures, where=where, by_type=by_type)


def _count_differing(differing: Sequence[int], found: int) -> str:
    some = ", ".join(str(index) for index in differing[:5])
    return f"{len(differing)} of {found} answers differ from the accuracy run's, as of samples {some}"


class _Unread:
    """Differences between answers after the first element, if its type is too short for them.

    Only answers that all have the length of one number show their type: class numbers of 4 or 8 bytes. Longer ones are
    lists, images or text, of which the test compares only the beginning. In 8 bytes, the second 4 count only if the
    first 4 are the same in all answers, because they may also be a class number and its probability, which may vary.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._samples, self._lengths = set[int](), set[int]()
        self._values = set[bytes]()  # at most two values
        self._beginnings: list[tuple[int, int]] = []  # (sample, entry) of answers whose first 4 bytes differ
        self._ends: list[tuple[int, int]] = []
        self._small = True

    def add(self, index: int, one: bytes, other: bytes, number: int) -> None:
        """Add two answers to a sample with the same first element; ``number``: of the entry in the audit run's log."""
        self._samples.add(index)
        self._lengths |= {len(one), len(other)}
        if self._lengths not in ({4}, {8}):
            return
        for data in (one, other):
            if len(self._values) < 2:
                self._values.add(data[:4])
            self._small = self._small and abs(int.from_bytes(data, "little", signed=True)) < _LARGE
        if one[:4] != other[:4]:
            self._beginnings.append((index, number))
        elif one != other:
            self._ends.append((index, number))

    @property
    def _found(self) -> list[tuple[int, int]]:
        if self._lengths not in ({4}, {8}) or self._size >= max(self._lengths):
            return []
        return sorted(self._beginnings + (self._ends if len(self._values) == 1 else []), key=lambda item: item[1])

    @property
    def differing(self) -> list[int]:
        return [index for index, _ in self._found]

    @property
    def first(self) -> int:
        """The first entry that differs."""
        return self._found[0][1]

    def hides_many(self) -> bool:
        """Return True if more than 1 % of the samples differ, and more than one: few may vary from run to run."""
        return len(set(self.differing)) > max(1, len(self._samples) // 100)

    def explain(self, dtype: str, found: int) -> str:
        (length,) = self._lengths
        if length == 8 and (self._small or not self._beginnings):
            fitting = "int64"
        else:
            fitting = "int32" if self._small else "float32"
        compared = "byte" if self._size == 1 else f"{self._size} bytes"
        return (
            f"{_count_differing(self.differing, found)}, but not in the first {compared}, and type {dtype} compares no "
            f"more: the answers have {length} bytes; declare dtype: {fitting}"
        )


def _has_same_first(one: Entry, other: Entry, dtype: str) -> bool:
    """Return True if the first elements are equal. An answer without elements equals only another such answer."""
    if dtype == ANY:
        fitting = (t for t in DTYPES if not len(one.data) % measure(t) and not len(other.data) % measure(t))
        return all(_has_same_first(one, other, t) for t in fitting)
    left, right = one.read_first(dtype), other.read_first(dtype)
    return len(left) == len(right) and all(a == b for a, b in zip(left, right, strict=True))


def find_slack(rules: BenchmarkRules | None, scenario: str) -> Slack:
    """Return the difference the round allows between two runs of one system; the usual one if the round does not have
    the test."""
    try:
        limits = rules.find_test("TEST01", scenario).limits if rules else {}
    except KeyError:
        limits = {}
    return Slack.from_limits({name: value.value for name, value in limits.items()}, MOST_CHANGE)


def compare_speed(reference: DetailLog, audit: DetailLog, slack: Slack) -> Part:
    """Compare speeds within the slack in both directions. ERROR lines stop the official script, so they fail here;
    rounds before LoadGen 2 only warned."""
    before, after = read_from_detail(reference), read_from_detail(audit)
    reasons = find_unfit(before, after)
    for name, run, log in (("performance", before, reference), ("audit", after, audit)):
        if run.errors and log.release >= _FIRST_STRICT:
            reasons.append(f"the {name} run's log has {run.errors} ERROR lines")
    by_speed = False
    had, has = (log.get(keys.EFFECTIVE_TARGET_LATENCY_NS) for log in (reference, audit))
    if before.scenario == after.scenario == "Server" and had != has:
        reasons.append(f"the target latency is {has} ns, that of the performance run {had} ns")
    figures = {"performance run": show_score(before.score), "audit run": show_score(after.score)}
    if before.score is not None and after.score is not None:
        allowed = slack.find_allowed(before.scenario, before.score)
        figures |= {"difference": measure_distance(before.score, after.score), "allowed": f"+-{allowed:.0%}"}
        if not reasons and not before.score * (1 - allowed) <= after.score <= before.score * (1 + allowed):
            off, by_speed = describe_distance(before.score, after.score), True
            reasons.append(f"the score {show_score(after.score)} is {off}; at most {allowed * 100:g} % is allowed")
    return Part(tuple(reasons), figures, by_speed)


def compare_accuracies(fallback: Fallback) -> Part:
    """Compare the accuracy of systems whose answers vary (the checkers' fallback): every metric of both logs must be
    within the allowed percent."""
    reasons, figures = [], {}
    for metric, allowed in fallback.allowed.items():
        baseline, compliance = fallback.baseline.get(metric), fallback.compliance.get(metric)
        figures[metric] = f"{baseline} baseline, {compliance} compliance, {allowed} % allowed"
        if not baseline or not compliance:
            missing = "baseline" if not baseline else "compliance"
            reasons.append(f"{metric}: the {missing} accuracy is not known or zero")
        # In binary floating point, so that a borderline difference is judged as in the checkers.
        elif (off := abs(1 - float(baseline) / float(compliance)) * 100) > float(allowed):
            reasons.append(f"{metric}: {compliance} differs by {off:.3f} % from {baseline}; {allowed} % allowed")
    if not fallback.allowed:
        reasons.append("the round names no accuracy metric to compare")
    return Part(tuple(reasons), figures)


def _judge(inputs: VerdictInputs) -> AuditVerdict:
    answers = _make_answers_part(inputs)
    slack = inputs.find_slack(MOST_CHANGE)
    speed = compare_speed(inputs.performance.read_detail_log("performance"), inputs.audit.read_detail_log(AUDIT), slack)
    fallback = None
    if not answers.passed and {BASELINE, COMPLIANCE} <= set(inputs.reports):
        fallback = compare_accuracies(_collect_fallback(inputs))
    return judge_test01(answers, speed, fallback)


def _make_answers_part(inputs: VerdictInputs) -> Part:
    """Compare the answers, or reuse an earlier comparison if the logs are not available."""
    dtype = inputs.dtype or USUAL
    try:
        audit, accuracy = inputs.audit.read_entries(AUDIT), inputs.accuracy.read_entries("accuracy")
    except MissingLogError:
        known = inputs.known_answers
        # If the answers are now read as another type, the earlier comparison is no longer valid.
        if known is None or known.figures.get("compared as", "").partition(",")[0] not in ("", dtype):
            raise
        return known
    return compare_answers(accuracy, audit, dtype)


def _collect_fallback(inputs: VerdictInputs) -> Fallback:
    stated = {}
    for name in (BASELINE, COMPLIANCE):
        report = parse_accuracy(inputs.reports[name], inputs.metrics, name)
        # The checkers read to the end of the file, so the last value of a metric counts.
        stated[name] = {metric: values[-1].value for metric, values in report.metrics.items() if values}
    usual = inputs.limits.get("most_accuracy_change", "1")
    allowed = {m: Decimal(inputs.limits.get(f"most_accuracy_change_{m}", usual)) for m in inputs.metrics}
    return Fallback(stated[BASELINE], stated[COMPLIANCE], allowed)


TEST01 = ComplianceTest(
    judge=_judge,
    reads_answers=(AUDIT, "accuracy"),
    compare_answers=_make_answers_part,
    dtypes=DTYPES,
    usual_dtype=USUAL,
    unknown_dtype=ANY,
    speed_file=VERIFY_PERFORMANCE,
    # Before the first setting existed, submitters requested a share of the answers with the second one.
    marks=(keys.SAMPLING_TARGET, "accuracy_log_probability"),
)
