"""What power supplies can give, as the checker adds it up."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from reconciler.rules.nameplate import compute_capacity
from reconciler.storage.documents import parse_yaml_mapping

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


def supplies(needed: object, *watts: object, name: str = "PSUs") -> dict[str, object]:
    return {"Min PSUs Needed": needed, name: [{"PowerCapacityWatts": each} for each in watts]}


@pytest.mark.parametrize(
    ("document", "watts"),
    [
        (supplies(1, 5), 5),
        (supplies(2, 5, 9, 7), 16),
        (supplies(3, 5, 9, 7), 21),
        (supplies(1, "5.5", 5), "5.5"),
        (supplies(1, 5, name="psus"), 5),
        (supplies(2, 5, "0.5"), "5.5"),
        ({"MIN PSUS NEEDED": 1, "pSuS": [{"PowerCapacityWatts": 4}]}, 4),
        ({"PSUs": [{"PowerCapacityWatts": 4}]}, 0),
        ({"Min PSUs Needed": 1}, 0),
        ({"a": supplies(1, 5), "b": [supplies(1, 7), {"c": supplies(1, 9)}]}, 21),
        ([supplies(1, 5), 3, "PSUs", None], 5),
        ([], 0),
        (7, 0),
        ("PSUs", 0),
    ],
    ids=str,
)
def test_capacities_of_all_components_are_added_up(document: object, watts: object) -> None:
    assert compute_capacity(document) == Decimal(str(watts))


@pytest.mark.parametrize(
    ("document", "named"),
    [
        (supplies(1), "PSUs"),
        ({"Min PSUs Needed": 1, "PSUs": "two"}, "PSUs"),
        ({"Min PSUs Needed": 1, "PSUs": {"PowerCapacityWatts": 1}}, "PSUs"),
        (supplies(0, 5), "Min PSUs Needed .*0"),
        (supplies(-1, 5), "Min PSUs Needed .*-1"),
        (supplies(3, 5, 6), "Min PSUs Needed .*3"),
        (supplies(True, 5), "Min PSUs Needed .*True"),
        (supplies("1", 5), "Min PSUs Needed .*'1'"),
        (supplies(1, 5, 0), "PowerCapacityWatts"),
        (supplies(1, -5), "PowerCapacityWatts"),
        (supplies(1, 5, "much"), "PowerCapacityWatts"),
        ({"Min PSUs Needed": 1, "PSUs": [1200]}, "PowerCapacityWatts"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_component_is_reported(document: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        compute_capacity({"Rack": [document]})
