"""`reconcile try CELL SETTING=VALUE…`: one run with other settings, beside everything that is published."""

from __future__ import annotations

import click

from reconciler.cli.shared.options import busy_option, cell_argument, json_option, quick_option, spec_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.run_pass import choose_view, stop_cleanly
from reconciler.cli.shared.trial_words import find_trial_cell, parse_settings
from reconciler.errors import IN_SYNC, INTERRUPTED, NOT_IN_SYNC
from reconciler.render.documents import render_document
from reconciler.resource.settings import Trial
from reconciler.tune.report import render_trial_part, render_try_text
from reconciler.tune.trials import make_trial

_SETTINGS = click.Argument(["settings"], nargs=-1, metavar="[SETTING=VALUE]...")


@click.command("try")
@takes([cell_argument(), _SETTINGS, quick_option(), busy_option(), spec_option(), json_option()])
def command(
    cell: str, settings: tuple[str, ...], quick: bool, busy: bool, specs: tuple[str, ...], as_json: bool
) -> int:
    """Make one performance run of CELL with other settings, such as target_qps=250 or run.batch_size=8.

    The spec stays as it is, and nothing is published: the run is recorded in .reconcile/trials as evidence. Exits 0
    when it is VALID, else 2.
    """
    wanted = parse_settings(settings)
    paths, options = find_asked_cells(specs, busy=busy)
    _, chosen = find_trial_cell(paths, options, cell)
    view = choose_view(as_json)
    try:
        with view, stop_cleanly():
            run = make_trial(paths, options, Trial(chosen, wanted, quick), view.report)
    except KeyboardInterrupt:
        say("Interrupted: the trial is dropped.", err=True)
        return INTERRUPTED
    if as_json:
        say_json(render_document("try", cell=chosen, asked=dict(wanted), trial=render_trial_part(run)))
    else:
        say(render_try_text(run, wanted, choose_paint()))
    return IN_SYNC if run.valid else NOT_IN_SYNC
