"""The command table, and the group that imports a command only when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import click

from reconciler.cli.shared.options import pass_options
from reconciler.resource.parts import PARTS
from reconciler.resource.programs import PROGRAMS
from reconciler.storage.collector import pause_collector

WITHOUT_NAME = "pass"

# Name → (module:command, or a module whose command is called ``command``; help), in the order of `--help`.
_BUILT_IN: Mapping[str, tuple[str, str]] = {
    "init": ("reconciler.cli.init", "Make a repository with a commented starter spec for this machine."),
    "detect": ("reconciler.cli.detect", "Read this machine, and propose how the spec should describe it."),
    "doctor": ("reconciler.cli.doctor", "List what is missing for real runs and the submission."),
    "prove": ("reconciler.cli.prove", "Test features on this machine's hardware; report without names or secrets."),
    "explain": (
        "reconciler.cli.spec:explain_command",
        "Describe a field of the spec: type, choices, default, meaning.",
    ),
    "fmt": ("reconciler.cli.spec:fmt_command", "Format specs uniformly; comments and values stay as they are."),
    "validate": (
        "reconciler.cli.spec:validate_command",
        "Check the specs; name every problem with file, line, column and fix.",
    ),
    "plan": ("reconciler.cli.plan", "Show what a pass would do, why, and how long it takes."),
    "apply": (
        "reconciler.cli.pass_:apply_command",
        "Carry out a saved plan, or the part of a new one that selectors choose.",
    ),
    "attach": (
        "reconciler.cli.pass_:attach_command",
        "Follow the jobs of an earlier pass in a queue; start nothing new.",
    ),
    "try": (
        "reconciler.cli.trials:try_command",
        "Make one run with other settings; changes no spec, publishes nothing.",
    ),
    "tune": (
        "reconciler.cli.trials:tune_command",
        "Search for the highest VALID rate or the best settings, and propose the edit.",
    ),
    "watch": ("reconciler.cli.watch", "Make a pass whenever the specs, records, tree or branch change."),
    "status": ("reconciler.cli.status", "Show the matrix of cells and conditions with the results."),
    "show": ("reconciler.cli.show:show_command", "Show every resolved value of a cell with the line that sets it."),
    "why": ("reconciler.cli.show:why_command", "Explain what a cell has to do and why, or that it has nothing to do."),
    "accept": (
        "reconciler.cli.decisions:accept_command",
        "Let results count for a while although their inputs differ.",
    ),
    "freeze": ("reconciler.cli.decisions:freeze_command", "Skip a cell, or the whole submission, in every pass."),
    "unfreeze": ("reconciler.cli.decisions:unfreeze_command", "End a freeze."),
    "embargo": ("reconciler.cli.embargo", "Show where results may go today; check each git push."),
    "logs": ("reconciler.cli.logs", "Find or print the logs of a cell."),
    "pr": ("reconciler.cli.history:pr_command", "Compare two commits: what merging would make stale, build and run."),
    "diff": ("reconciler.cli.history:diff_command", "Show what differs between two commits: inputs and results."),
    "compare": ("reconciler.cli.history:compare_command", "Compare the results of two commits, trees or systems."),
    "history": ("reconciler.cli.history:history_command", "List and plot everything that was measured for a cell."),
    "blame": (
        "reconciler.cli.history:blame_command",
        "Show which commits changed a cell's inputs, and the effect of each.",
    ),
    "benchmarks": (
        "reconciler.cli.rounds:benchmarks_command",
        "List the built-in benchmarks; show what one needs on disk.",
    ),
    "fetch": ("reconciler.cli.fetch", "Download and verify datasets and models, or explain how to get them."),
    "rehearse": ("reconciler.cli.rehearse", "Rehearse a submission with generated data."),
    "rounds": (
        "reconciler.cli.rounds:rounds_command",
        "Show the rules of the rounds, where sources differ, and what changed.",
    ),
    "check": ("reconciler.cli.check", "Check the rendered tree, or any tree, against the submission rules."),
    "amend": (
        "reconciler.cli.review:amend_command",
        "Record why a submitted result was corrected, and what was repeated.",
    ),
    "respond": ("reconciler.cli.review:respond_command", "Gather the evidence for a disputed result in one folder."),
    "import": ("reconciler.cli.adopt:import_command", "Record LoadGen runs that were made elsewhere."),
    "audit": (
        "reconciler.cli.audit:audit_command",
        "Prove a commit: records, logs, metrics, verdicts and tree, from git alone.",
    ),
    "adopt": ("reconciler.cli.adopt:adopt_command", "Turn a submission tree into a spec and imported records."),
    "move": ("reconciler.cli.move", "Move a cell to another division in the spec, and show the effect."),
    "package": (
        "reconciler.cli.package:package_command",
        "Pack the submission tree reproducibly, or list what prevents it.",
    ),
    "unpack": ("reconciler.cli.package:unpack_command", "Unpack and verify what `package` wrote."),
    "sign": (
        "reconciler.cli.audit:sign_command",
        "Sign records that have no signature yet, with the key that git signs with.",
    ),
    "prune": (
        "reconciler.cli.prune:prune_command",
        "Remove what no spec declares any more; never logs, and only with --yes.",
    ),
    "gc": ("reconciler.cli.prune:gc_command", "Remove stored files that no record names."),
    "help": ("reconciler.cli.help", "Read the documents: the tutorial, guides by task, the reference, the glossary."),
}
# Title → commands, in the order of `--help`.
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Get started": (
        *("init", "detect", "doctor", "prove", "explain", "validate", "fmt", "benchmarks", "fetch", "rehearse"),
    ),
    "Run": ("plan", "apply", "try", "tune", "watch"),
    "Inspect": ("status", "show", "why", "logs", "history", "blame", "diff", "compare", "pr"),
    "Decide": ("accept", "freeze", "unfreeze", "move", "embargo"),
    "Submit": ("rounds", "check", "audit", "package", "unpack", "sign"),
    "Review": ("respond", "amend"),
    "Transfer and clean up": ("import", "adopt", "prune", "gc"),
}


_OPTIONAL = list(chain(*(part.commands for part in PARTS.values()), *(each.commands for each in PROGRAMS.values())))


def _insert_optional(names: Iterable[str]) -> Iterator[str]:
    """Yield each command, followed by those that optional parts place after it."""
    for name in names:
        yield name
        yield from (own for own, _, _, before in _OPTIONAL if before == name)


_ALL = {**_BUILT_IN, **{name: (module, text) for name, module, text, _ in _OPTIONAL}}
COMMANDS: Mapping[str, tuple[str, str]] = {name: _ALL[name] for name in _insert_optional(_BUILT_IN)}
GROUPS: Mapping[str, tuple[str, ...]] = {title: tuple(_insert_optional(names)) for title, names in _GROUPS.items()}
_HIDDEN: Mapping[str, tuple[str, str]] = {WITHOUT_NAME: ("reconciler.cli.pass_", "Run one pass.")}


def looks_like_path(word: str) -> bool:
    return "/" in word or word.endswith((".yaml", ".yml", ".json")) or word in (".", "..") or Path(word).exists()


class Commands(click.Group):
    """A group whose subcommands are listed in COMMANDS, and that treats any other word as an argument of a pass."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name) or _HIDDEN.get(cmd_name)
        if entry is None:
            return None
        with pause_collector():  # a module's objects are permanent
            module, _, attribute = entry[0].partition(":")
            found = getattr(importlib.import_module(module), attribute or "command")
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the named command, or a pass if the first word is an option, a path or a selector."""
        word = args[0]
        if word in COMMANDS or word in _HIDDEN:
            return super().resolve_command(ctx, args)
        late = next((arg for arg in args if arg in COMMANDS and not Path(arg).exists()), None)
        if word.startswith("-") and late is not None:
            raise click.UsageError(f"options of a command go after it: reconcile {late} {word}", ctx)
        if word.startswith("-") or "=" in word or looks_like_path(word):
            return WITHOUT_NAME, self.get_command(ctx, WITHOUT_NAME), args
        import difflib

        near = difflib.get_close_matches(word, COMMANDS, 1)
        hint = f"Did you mean `reconcile {near[0]}`?" if near else "`reconcile --help` lists the commands."
        raise click.UsageError(f"{word!r} is neither a command nor a spec file. {hint}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands from the table, so that none is imported."""
        grouped = {name for names in GROUPS.values() for name in names}
        rest = tuple(name for name in COMMANDS if name not in grouped)
        for title, names in {**GROUPS, "More": rest}.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names if name in COMMANDS])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [record for p in self.get_params(ctx) if (record := p.get_help_record(ctx)) is not None]
        passing = [record for p in pass_options() if (record := p.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(own)
        with formatter.section("Options of a pass"):
            formatter.write_dl(passing)
        self.format_commands(ctx, formatter)
