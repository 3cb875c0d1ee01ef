from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from reconciler.endpoints.rules.point import AccuracyScore, MeasuredPoint
from reconciler.endpoints.rules.results import UnreadablePointError, parse_point
from tests.unit.endpoints.rules.good_point import RAN, SAMPLES

_CONFIG = (SAMPLES / "config.yaml").read_bytes()
_SUMMARY = json.loads((SAMPLES / "result_summary.json").read_bytes())


def parse(change: Callable[[dict[str, Any]], object] = lambda _: None, **files: bytes) -> MeasuredPoint:
    summary = json.loads(json.dumps(_SUMMARY))
    change(summary)
    named = {"config.yaml": _CONFIG, "result_summary.json": json.dumps(summary).encode()}
    named.update({name.replace("__", "."): data for name, data in files.items()})
    return parse_point(named, 0)


def test_a_run_of_the_client_is_a_point() -> None:
    named = (RAN.concurrency, RAN.load_pattern, RAN.model, RAN.dataset)
    assert named == (5, "concurrency", "tiny", "tiny_prompts")
    assert (RAN.issued, RAN.completed, RAN.failed) == (192, 192, 0)
    assert (RAN.finished, RAN.streaming, RAN.stream_all_chunks) == (True, True, True)
    assert RAN.seeds == {
        "scheduler_rng_seed": 10487924139932647040,
        "sample_index_rng_seed": 586478644936801402,
        "model_seed": 9315206023656308754,
    }


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(UnreadablePointError) as raised:
        parse_point({"config.yaml": b"- a list\n"}, 0)
    assert [found.rule for found in raised.value.problems] == ["config-file-present", "result-summary-present"]
    reported = [str(found) for found in raised.value.problems]
    assert [text.partition(":")[0] for text in reported] == ["config.yaml", "result_summary.json"]
    assert raised.value.message == str(raised.value) == "; ".join(reported)
    assert raised.value.fix


def scores(data: object) -> tuple[AccuracyScore, ...]:
    return parse(accuracy_results__json=json.dumps(data).encode()).accuracy


def test_scores_of_the_client_and_of_older_files() -> None:
    entry = {"dataset_name": "q", "score": 0.83, "unit_samples": 100, "num_repeats": 4, "dataset_type": "accuracy"}
    inline = {"dataset_name": "performance", "score": 0.5, "dataset_type": "performance"}
    first, second = scores({"accuracy_scores": [entry, inline]})
    assert (first.scores, first.samples, first.issued, first.inline) == ({"score": Decimal("0.83")}, 100, 400, False)
    assert second.inline
    (old,) = scores({"cnn": {"score": {"rouge1": "38.7", "note": "x"}, "num_samples": 13368}})
    assert (old.scores, old.samples) == ({"rouge1": Decimal("38.7")}, 13368)


def test_only_a_metric_is_a_score_of_an_entry_that_states_none_by_that_name() -> None:
    about = ["num_samples", "n_repeats", "unit_samples", "total_samples", "num_repeats", "duration_s", "osl_tokenize_s"]
    about += ["status", "extractor", "ground_truth_column", "response_counts", "output_sequence_lengths", "breakdown"]
    older = {"rouge1": "38.7", "complete": True, "dataset_type": "accuracy", **dict.fromkeys(about, 5)}
    (found,) = scores({"cnn": {**older, "score": None}})
    assert found.scores == {"rouge1": Decimal("38.7")}


@pytest.mark.parametrize(("said", "found"), [(True, True), (False, False), ("yes", False), (None, False)])
def test_a_window_is_found_where_the_client_says_so(said: object, found: bool) -> None:
    window = parse(lambda s: s.update(steady_state={"found": said})).window
    assert window is not None
    assert window.found is found
