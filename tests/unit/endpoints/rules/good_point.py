"""A measured point that no rule has anything against, and what it is judged by."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

from reconciler.endpoints.rules.curve_rules import load_endpoints_rules
from reconciler.endpoints.rules.point import SteadyWindow
from reconciler.endpoints.rules.regions import compute_regions
from reconciler.endpoints.rules.results import parse_point

RULES = load_endpoints_rules()
REGIONS = compute_regions(64, 1, RULES)
SAMPLES = Path(__file__).parent / "samples"  # what the official client left of a run, without its histograms
RAN = parse_point({name: (SAMPLES / name).read_bytes() for name in ("config.yaml", "result_summary.json")}, 192)
WINDOW = SteadyWindow(True, 0, 4, 192, 960, Decimal(650), {"tpot_p90": "Plateau"})
GOOD = replace(RAN, duration_ns=700 * 10**9, window=WINDOW)
