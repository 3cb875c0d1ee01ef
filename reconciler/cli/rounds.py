"""`reconcile rounds`: the rules of each round, where their sources differ, and what changed between two."""

from __future__ import annotations

import difflib

import click

from reconciler.cli.options import json_option, takes
from reconciler.cli.output import paint, say, say_json
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.mlperf.rounds import known_rounds, load_ruleset
from reconciler.mlperf.rounds_conflicts import conflicts
from reconciler.mlperf.rounds_diff import diff_rounds
from reconciler.mlperf.ruleset import BenchmarkRules, Ruleset
from reconciler.render.documents import document, plain_value
from reconciler.render.explanation import table
from reconciler.render.quantities import count
from reconciler.render.rounds import (
    benchmark_part,
    benchmark_text,
    conflicts_part,
    conflicts_text,
    diff_part,
    diff_text,
    round_text,
)


def _round(name: str = "round_name", metavar: str = "ROUND", required: bool = True) -> click.Argument:
    return click.Argument([name], metavar=metavar, required=required)


@click.group("rounds", invoke_without_command=True)
@takes([json_option()])
@click.pass_context
def command(context: click.Context, as_json: bool) -> int:
    """List the rounds whose rules are known, oldest first; show, compare and question them."""
    if context.invoked_subcommand is not None:
        return IN_SYNC
    found = [load_ruleset(name) for name in known_rounds()]
    if as_json:
        rows = [{"round": r.round, "layout": r.layout, "benchmarks": list(r.benchmarks)} for r in found]
        say_json(document("rounds", rounds=rows))
        return IN_SYNC
    listed = [(r.round, count(len(r.benchmarks), "benchmark"), f"layout {r.layout}") for r in found]
    say("\n".join(table(listed, indent=0)))
    return IN_SYNC


@command.command("show")
@takes([_round(), click.Argument(["benchmark"], required=False, metavar="[BENCHMARK]"), json_option()])
def show(round_name: str, benchmark: str | None, as_json: bool) -> int:
    """Show the rules of ROUND: all benchmarks, or every value of BENCHMARK with its sources."""
    ruleset = load_ruleset(round_name)
    if benchmark is not None:
        rules = _find(ruleset, benchmark)
        if as_json:
            say_json(document("round", round=round_name, benchmarks={rules.name: benchmark_part(rules)}))
        else:
            say(benchmark_text(rules, paint()))
    elif as_json:
        parts = {rules.name: benchmark_part(rules) for rules in ruleset.benchmarks.values()}
        say_json(document("round", round=round_name, benchmarks=parts, sections=plain_value(ruleset.sections)))
    else:
        say(round_text(ruleset, paint()))
    return IN_SYNC


def _find(ruleset: Ruleset, name: str) -> BenchmarkRules:
    rules = ruleset.benchmark(ruleset.official(name) or name)
    if rules is None:
        near = difflib.get_close_matches(name, ruleset.benchmarks, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        fix = f"{hint}it has {', '.join(ruleset.benchmarks)}"
        raise ReconcilerError(f"round {ruleset.round} has no benchmark {name!r}", fix=fix)
    return rules


@command.command("conflicts")
@takes([_round(metavar="[ROUND]", required=False), json_option()])
def show_conflicts(round_name: str | None, as_json: bool) -> int:
    """List each value of ROUND (by default the newest) about which the sources differ: which counts, and why."""
    ruleset = load_ruleset(round_name or known_rounds()[-1])
    found = conflicts(ruleset)
    if as_json:
        say_json(document("round conflicts", round=ruleset.round, conflicts=conflicts_part(found)))
    else:
        say(conflicts_text(ruleset.round, found, paint()))
    return IN_SYNC


@command.command("diff")
@takes([_round("before", "BEFORE"), _round("after", "AFTER"), json_option()])
def show_diff(before: str, after: str, as_json: bool) -> int:
    """List what changed from round BEFORE to round AFTER: benchmarks, and the values of those that both have."""
    diff = diff_rounds(load_ruleset(before), load_ruleset(after))
    if as_json:
        say_json(document("rounds diff", **diff_part(diff)))
    else:
        say(diff_text(diff, paint()))
    return IN_SYNC
