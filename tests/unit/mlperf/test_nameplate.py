"""What power supplies can give, as the checker adds it up."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from reconciler.mlperf.documents import parse_yaml_mapping
from reconciler.mlperf.nameplate import compute_capacity

LAB = b"""\
My System:
- Rack 1:
  - Server 1:
    - Description: two of three are spare
      Min PSUs Needed: 1
      PSUs:
      - {Name: PSU 1, PowerCapacityWatts: 1200}
      - {Name: PSU 2, PowerCapacityWatts: 1300}
      - {Name: PSU 3, PowerCapacityWatts: 1100}
  - Switch 1:
    - min psus needed: 2
      PSUs:
      - {Name: PSU 1, PowerCapacityWatts: 600}
      - {Name: PSU 2, PowerCapacityWatts: 600}
"""


def test_the_largest_supplies_that_are_needed_count() -> None:
    assert compute_capacity(parse_yaml_mapping(LAB).values) == Decimal(2500)


def test_what_names_no_supply_gives_nothing() -> None:
    assert compute_capacity({"My System": [{"Rack": "empty"}, 7]}) == 0


@pytest.mark.parametrize(
    "component",
    [
        {"Min PSUs Needed": 2, "PSUs": [{"PowerCapacityWatts": 1}]},
        {"Min PSUs Needed": 0, "PSUs": [{"PowerCapacityWatts": 1}]},
        {"Min PSUs Needed": "1", "PSUs": [{"PowerCapacityWatts": 1}]},
        {"Min PSUs Needed": 1, "PSUs": []},
        {"Min PSUs Needed": 1, "PSUs": "two"},
        {"Min PSUs Needed": 1, "PSUs": [{"Watts": 1200}]},
        {"Min PSUs Needed": 1, "PSUs": [{"PowerCapacityWatts": "1.2 kW"}]},
    ],
)
def test_a_component_that_is_not_as_in_the_template_is_refused(component: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"PSU|power suppl"):
        compute_capacity({"Server": component})
