"""A measured point that no rule has anything against, and what it is judged by."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

from reconciler.endpoints.rules.curve_rules import load_endpoints_rules
from reconciler.endpoints.rules.point import SteadyWindow
from reconciler.endpoints.rules.regions import compute_regions
from reconciler.endpoints.rules.results import read_point

RULES = load_endpoints_rules()
REGIONS = compute_regions(64, 1, RULES)
SEEDS = RULES.find_seed_set("A")
RAN = read_point(Path(__file__).parent / "samples")
WINDOW = SteadyWindow(True, 0, 4, 192, 960, Decimal(650), {"tpot_p90": "Plateau"})
GOOD = replace(RAN, duration_ns=700 * 10**9, window=WINDOW)
