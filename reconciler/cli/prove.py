"""`reconcile prove [PART…]`: try on this machine what the project itself could not, and report what worked."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from reconciler.cli.shared.options import file_option, json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.errors import IN_SYNC, NOT_IN_SYNC
from reconciler.rehearse.machine_parts import PARTS, Given, describe_here, redact, try_parts
from reconciler.render.documents import render_document
from reconciler.storage.files import replace


@click.command("prove")
@takes(
    [
        click.Argument(["parts"], nargs=-1, metavar="[PART]..."),
        click.Option(["--image"], default="", metavar="NAME@sha256:…", help="For `container`: a local image."),
        click.Option(["--director"], default="", metavar="HOST:PORT", help="For `power`: the kit's server."),
        click.Option(["--ntp"], default="", metavar="HOST", help="For `power`: the time server of both machines."),
        click.Option(["--kit"], default="", metavar="DIR", help="For `power`: a folder of MLCommons' power kit."),
        click.Option(["--profile"], default="", metavar="NAME", help="For `mig`: the slice; default: the smallest."),
        file_option("Where to write the report, after it was shown."),
        click.Option(["--yes"], is_flag=True, help="Write the report without asking."),
        json_option(),
    ]
)
def command(parts: tuple[str, ...], output: Path | None, yes: bool, as_json: bool, **words: str) -> int:
    """Test features that need special hardware, with short runs of generated data: PART, or every part. Missing
    requirements are listed.

    The report has versions, results and errors, without names, addresses and secrets. It is shown before it is written.
    `mig` cuts a GPU only if it is named.
    """
    if unknown := [name for name in parts if name not in PARTS]:
        raise click.UsageError(f"no part {unknown[0]!r}: name some of {', '.join(PARTS)}")
    given = Given(**words)
    tried = try_parts(parts, given)
    found = redact(render_document("prove", here=describe_here(), parts=tried), given, os.environ)
    if as_json:
        say_json(found)
    else:
        say(json.dumps(found, indent=1, ensure_ascii=False))
        say("\n".join(f"{row['part']:<12}  {row['result']:<9}  {row['why'] or row['tries']}" for row in found["parts"]))
    if output is not None and (yes or click.confirm(f"Write what is shown above to {output}?", err=True)):
        replace(output, f"{json.dumps(found, indent=1, ensure_ascii=False)}\n".encode())
        say(f"Wrote {output}.", err=as_json)
    return NOT_IN_SYNC if any(item.result == "failed" for item in tried) else IN_SYNC
