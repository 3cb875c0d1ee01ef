"""TEST08: a streaming recommender makes the same predictions in performance mode and in accuracy mode.

Compares the normalized entropy of each sample. An answer of the accuracy run is float32: timestamp, query, predictions,
as many labels, as many weights, and their count. An answer of the audit run ends after the predictions.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence

from reconciler.errors import LogError
from reconciler.loadgen.log_files import VERIFY_ACCURACY
from reconciler.resource.kinds import AUDIT
from reconciler.rules.compliance.definition import AuditVerdict, ComplianceTest, Part, VerdictInputs, make_verdict
from reconciler.rules.compliance.entries import Entry

TOLERANCE = 0.001
Key = tuple[int, int]


def _round_to_single(number: float) -> float:
    """Round to single precision, as the official script does before it clips."""
    value: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return value


_LEAST, _MOST = _round_to_single(1e-7), _round_to_single(1 - 1e-7)


def judge_test08(accuracy: Iterable[Entry], audit: Iterable[Entry], tolerance: float = TOLERANCE) -> AuditVerdict:
    """Judge the test: every sample of the audit run must be in the accuracy run, with its normalized entropy within the
    tolerance."""
    try:
        part = _compare_predictions(accuracy, audit, tolerance)
    except (LogError, ValueError, OverflowError) as error:
        part = Part((f"the answers cannot be compared: {error}",))
    return make_verdict(part, "TEST08: the audit run's predictions against the accuracy run's", VERIFY_ACCURACY)


def _compare_predictions(accuracy: Iterable[Entry], audit: Iterable[Entry], tolerance: float) -> Part:
    # Read the audit run's answers first: there are few of them, and only the matching answers of the accuracy run need
    # to be kept.
    tested = [(_read_key(values), values[2:]) for values in (entry.read_values("float32") for entry in audit)]
    wanted, answers = {key for key, _ in tested}, 0
    known: dict[Key, Sequence[float]] = {}
    for entry in accuracy:
        values = entry.read_values("float32")
        answers += 1
        if not values or len(values) != 3 + 3 * int(values[-1]):
            raise ValueError(f"sample {entry.index} of the accuracy run has {len(values)} numbers, not 3 + 3 for each")
        key = _read_key(values)
        if key in wanted:
            known[key] = values
    found = [_find_difference(key, own, known[key], tolerance) for key, own in tested if key in known]
    differing, missing = [each for each in found if each], len(tested) - len(found)
    reasons = []
    if differing:
        what = f"{len(differing)} of {len(tested)} samples differ by more than {tolerance:.2%}"
        reasons.append(f"{what}: {differing[0]}")
    if missing:
        reasons.append(f"{missing} samples of the audit run are not in the accuracy run")
    if not found:
        reasons.append("no sample is in both runs")
    figures = {
        "answers in the accuracy run": str(answers),
        "answers in the audit run": str(len(tested)),
        "not in the accuracy run": str(missing),
        "differing": str(len(differing)),
        "tolerance": f"{tolerance:.2%}",
    }
    return Part(tuple(reasons), figures)


def _read_key(values: Sequence[float]) -> Key:
    if len(values) < 2:
        raise ValueError("an answer holds no timestamp and query")
    return int(values[0]), int(values[1])


def _find_difference(key: Key, predictions: Sequence[float], values: Sequence[float], tolerance: float) -> str:
    """Describe how predictions differ from ``values``, the accuracy run's answer; "" if they do not."""
    count = int(values[-1])
    labels, weights = values[2 + count : 2 + 2 * count], values[2 + 2 * count : 2 + 3 * count]
    if len(predictions) != count:
        return f"{key}: {len(predictions)} predictions, {count} in the accuracy run"
    before, after = (compute_entropy(each, labels, weights) for each in (values[2 : 2 + count], predictions))
    same = abs(after - before) <= tolerance * abs(before)  # False for NaN
    return "" if same else f"{key}: normalized entropy {after:.6g}, {before:.6g} in the accuracy run"


def compute_entropy(predictions: Sequence[float], labels: Sequence[float], weights: Sequence[float]) -> float:
    """Return the cross entropy divided by that of always predicting the weighted mean label; 0 if all weights are 0."""
    total = math.fsum(weights)
    if total == 0:
        return 0.0
    chosen = [_clip(label) for label in labels]
    cross = -math.fsum(
        weight * (label * math.log(p) + (1 - label) * math.log(1 - p))
        for p, label, weight in zip(map(_clip, predictions), chosen, weights, strict=True)
    )
    mean = _clip(math.fsum(w * label for w, label in zip(weights, chosen, strict=True)) / total)
    base = -mean * math.log(mean) - (1 - mean) * math.log(1 - mean)
    return cross / (base * total) if base else 0.0


def _clip(number: float) -> float:
    return number if math.isnan(number) else min(max(number, _LEAST), _MOST)


def _judge_inputs(inputs: VerdictInputs) -> AuditVerdict:
    tolerance = float(inputs.limits.get("most_entropy_change", "0.1")) / 100
    return judge_test08(inputs.accuracy.read_entries("accuracy"), inputs.audit.read_entries(AUDIT), tolerance)


TEST08 = ComplianceTest(judge=_judge_inputs, reads_answers=(AUDIT, "accuracy"), shows_run=False, shows_answers=False)
