"""Which settings of a run its round fixes, and which its spec."""

from __future__ import annotations

from reconciler.loadgen.settings import Unit, select_conf_settings

RATE, PERCENT, MS, WHOLE_MS = Unit.RATE, Unit.PERCENT, Unit.MS, Unit.WHOLE_MS
COUNT, OVERRIDE, FLAG = Unit.COUNT, Unit.OVERRIDE, Unit.FLAG


def test_a_conf_states_what_a_spec_says_and_nothing_of_the_round() -> None:
    said = {"target_qps": "7", "min_duration": 0, "max_duration": None, "tpot_latency": 5, "accuracy_sample_count": 3}
    assert select_conf_settings(said, "performance", "Server") == {"target_qps": "7", "min_duration": 0}
    assert select_conf_settings(said, "accuracy", "Server") == {"accuracy_sample_count": 3}
