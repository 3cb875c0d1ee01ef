from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from reconciler.endpoints.rules.power import ProvisionedPower, compute_power
from reconciler.endpoints.tree.collecting import make_power
from reconciler.errors import ReconcilerError
from tests.unit.endpoints.tree.curves import RULES

_BOX: dict[str, Any] = {
    "cooling": "direct liquid cooling",
    "host_processor_model_name": "ACME 9000",
    "host_processors_per_node": 2,
    "host_processor_tdp_w": 350,
    "host_processor_tdp_source": "https://acme.example/9000",
    "accelerator_model_name": "ACME X1",
    "accelerators_per_node": 8,
    "accelerator_tdp_w": "700.5",
    "accelerator_tdp_source": "https://acme.example/x1",
}


def compute(**changes: Any) -> ProvisionedPower:
    return compute_power(make_power("box", {**_BOX, **changes}), RULES, {}, {})


def test_declared_parts_give_the_provisioned_power() -> None:
    power = compute()
    assert (power.problems, power.estimated) == ([], [])
    assert power.kilowatts == Decimal("8.20")  # 1.3 x (2 x 350 + 8 x 700.5)
    switched = compute(scale_up_switch_count=2, scale_up_switch_w=100, scale_up_switch_source="https://acme.example/s")
    assert switched.kilowatts == Decimal("8.46")


def test_cooling_that_no_one_names_takes_the_greater_overhead() -> None:
    assert compute(cooling="").kilowatts == Decimal("9.46")


def test_what_is_left_out_is_estimated_and_not_guessed() -> None:
    listed = compute(accelerator_model_name="NVIDIA B200", accelerator_tdp_w="")
    assert listed.estimated == ["node_sets[0].accelerator.tdp_per_unit (D.3)"]
    assert any("no figure" in problem for problem in compute(host_processor_tdp_w="").problems)
    assert any("not an address" in problem for problem in compute(accelerator_tdp_source="").problems)


def test_a_machine_without_accelerators_has_a_power() -> None:
    assert compute(accelerators_per_node="", accelerator_tdp_w="").kilowatts == Decimal("0.91")


def test_a_published_power_and_a_declared_one_govern() -> None:
    published = compute(published_node_power_w=10_200, published_node_power_source="https://acme.example/box")
    assert published.kilowatts == Decimal("10.20")
    declared = compute(provisioned_power_kw=12, provisioned_power_source="https://acme.example/box")
    assert (declared.kilowatts, declared.declared) == (Decimal("12.00"), True)


@pytest.mark.parametrize("figure", ["about 700", "nan", "inf"])
def test_a_figure_that_is_none_is_refused(figure: str) -> None:
    with pytest.raises(ReconcilerError, match=f"accelerator_tdp_w is '{figure}'"):
        make_power("box", {**_BOX, "accelerator_tdp_w": figure})
