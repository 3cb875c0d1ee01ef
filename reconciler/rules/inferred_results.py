"""Why a cell may not take the runs of another (`infer_from`): of another scenario, or of a stricter variant.

A scenario folder may hold the logs of another scenario (``Ruleset.find_inference``); the folder is then that of its
source. A benchmark's variant with a laxer bar may take the runs of the stricter one.
"""

from __future__ import annotations

from reconciler.resource.ruled_values import Bar
from reconciler.rules.ruleset import BenchmarkRules, Ruleset


def explain_refusal(ruleset: Ruleset, source: str, scenario: str, category: str) -> str:
    """Why a scenario may not be inferred from another one on a system of this category; empty: it may."""
    if ruleset.find_inference(scenario, source, category) is not None:
        return ""
    able = [rule for rule in ruleset.inferences if rule.scenario == scenario]
    if not able:
        return f"round {ruleset.round} never infers {scenario}"
    if any(rule.measured == source for rule in able):
        categories = sorted({rule.category for rule in able if rule.measured == source})
        return f"{scenario} is inferred from {source} on {' and '.join(categories)} systems only"
    return f"{scenario} is inferred from {' or '.join(dict.fromkeys(rule.measured for rule in able))} only"


def explain_variant_refusal(source: BenchmarkRules, target: BenchmarkRules, scenario: str) -> str:
    """Why a variant of a benchmark may not take another one's runs; empty: it may."""
    same = ("model_key", "dataset_size")
    if any(source.get_value(name, scenario) != target.get_value(name, scenario) for name in same):
        return f"{source.name} and {target.name} are not variants of one benchmark"
    strict = {bar.metric: bar for bar in source.list_bars(scenario)}
    for bar in target.list_bars(scenario):
        if bar.metric not in strict or not _stricter(strict[bar.metric], bar):
            return f"{source.name} does not have the stricter bar for {bar.metric}"
    return ""


def _stricter(source: Bar, target: Bar) -> bool:
    least = target.least is None or (source.least is not None and source.least >= target.least)
    most = target.most is None or (source.most is not None and source.most <= target.most)
    return least and most
