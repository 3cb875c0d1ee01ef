"""Scores of the endpoints harness, over all datasets of an accuracy run.

Its scorers use different scales (mlcommons/endpoints: evaluation/scoring.py). So a bar applies only to a score of the
same name, such as ROUGE, and to the scores that the submission checker itself compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from reconciler.resource.quantities import parse_decimal, parse_number
from reconciler.resource.ruled_values import Bar
from reconciler.storage.documents import ResultDocument


def read_accuracy_scores(results: ResultDocument) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of accuracy datasets, without those scored during a performance run."""
    found = results.get("accuracy_scores")
    for score in found if isinstance(found, list) else ():
        if isinstance(score, Mapping) and score.get("dataset_type") in (None, "accuracy"):
            yield score


def read_sample_count(results: ResultDocument) -> Decimal | None:
    """Return the total over all datasets; None if none is stated."""
    counts = []
    for score in read_accuracy_scores(results):
        counted = score.get("response_counts")
        issued = counted.get("issued") if isinstance(counted, Mapping) else None
        found = parse_number(score["total_samples"] if score.get("total_samples") is not None else issued)
        counts += [found] if found is not None else []
    return sum(counts, Decimal(0)) if counts else None


def read_score(results: ResultDocument, bar: str, *, single: bool) -> Decimal | None:
    """Return the mean, over all datasets, of the score for an accuracy bar; None if a dataset has none. For a score
    with parts, take the part with the name of the bar or with its last word, ignoring case (checker: accuracy_check).
    ``single``: also take a score without parts. Parts may be text, because the harness writes ROUGE scores as text."""
    names = {bar.lower(), bar.rpartition("_")[2].lower()}
    found: list[Decimal | None] = []
    for value in (score.get("score") for score in read_accuracy_scores(results)):
        if isinstance(value, Mapping):
            parts = {str(name).lower(): part for name, part in value.items()}
            named = [parse_decimal(parts[name]) for name in sorted(names) if name in parts]
            found.append(named[0] if named else None)
        else:
            found.append(parse_decimal(value) if single else None)
    exact = [value for value in found if value is not None]
    return sum(exact, Decimal(0)) / len(exact) if exact and len(exact) == len(found) else None


def judge_accuracy_scores(results: ResultDocument, bars: Iterable[Bar], *, single: bool, binds: bool) -> dict[str, Any]:
    """Judge a score for its record: the metric, the bars that the results have a figure for, and whether these bars are
    met.

    The checker compares no other bars, since the harness states those scores on scales of its own. Raises ValueError if
    a dataset has no score.
    """
    scores = list(read_accuracy_scores(results))
    if not scores or any(score.get("score") is None for score in scores):
        raise ValueError("not every accuracy dataset has a score")
    measured = ((bar, read_score(results, bar.metric, single=single)) for bar in bars)
    judged = [bar.describe(show_plain(value), met=bar.admits(value)) for bar, value in measured if value is not None]
    metric = {"value": judged[0]["measured"], "unit": judged[0]["metric"]} if judged else _average_scores(scores)
    return {"metric": metric, "bars": judged, "accuracy_met": all(bar["met"] for bar in judged) or not binds}


def _average_scores(scores: Iterable[Mapping[str, Any]]) -> dict[str, str] | None:
    known = [exact for score in scores if (exact := parse_number(score["score"])) is not None]
    return {"value": show_plain(sum(known, Decimal(0)) / len(known)), "unit": "score"} if known else None


def show_plain(value: Decimal) -> str:
    """Round to ten significant digits."""
    return format(float(value), ".10g")
