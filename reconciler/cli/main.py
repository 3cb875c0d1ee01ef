"""The console script: parse, call one command, and turn any outcome into an exit code."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
from collections.abc import Sequence
from errno import errorcode
from io import StringIO
from pathlib import Path
from traceback import format_exception_only

import click

from reconciler import __version__
from reconciler.cli.command_table import WITHOUT_NAME, Commands
from reconciler.cli.shared.options import ExistingPath, complete_quick, output_options
from reconciler.cli.shared.output import say, say_error
from reconciler.errors import BUG, ERROR, IN_SYNC, INTERRUPTED, ReconcilerError, SpecError
from reconciler.storage.escaping import escape_output
from reconciler.storage.storage_errors import (
    can_explain,
    explain_storage_error,
    find_refusal,
    find_refusal_behind,
    is_output_error,
)

_SINGLE_DASH = re.compile(r"-[A-Za-z][A-Za-z-]+=.*")
_SHORT = {"help_option_names": ["-h", "--help"]}


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        say(f"reconcile {__version__}")
        context.exit(IN_SYNC)


def _go_to(_: click.Context, __: click.Parameter, folder: str | None) -> None:
    """Change the folder like `git -C`: everything, including completion, behaves as if started there."""
    if folder is not None:
        os.chdir(folder)


@click.group(
    "reconcile",
    cls=Commands,
    invoke_without_command=True,
    context_settings={**_SHORT, "ignore_unknown_options": True, "allow_interspersed_args": False},
    subcommand_metavar="[SPEC]... | COMMAND [ARGS]...",
    epilog="Exit codes: 0 in sync or done, 1 error, 2 something selected is not in sync, 3 bug, 130 interrupted. "
    'Shell completion: eval "$(_RECONCILE_COMPLETE=bash_source reconcile)" (or zsh_source, fish_source).',
)
@click.option(
    "-C",
    "folder",
    type=ExistingPath(file_okay=False),
    metavar="DIR",
    is_eager=True,
    expose_value=False,
    callback=_go_to,
    help="Run as if started in DIR.",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
@click.pass_context
def reconcile(context: click.Context) -> int | None:
    """Make a recorded MLPerf Inference submission match its declared specs.

    Without a command: one pass. It builds, runs, scores and renders what differs from SPEC (by default all files
    in specs/) and nothing else; a second pass has nothing to do.
    """
    if context.invoked_subcommand is not None:
        return None
    command = reconcile.get_command(context, WITHOUT_NAME)
    assert command is not None
    with command.make_context(WITHOUT_NAME, [], parent=context) as sub:
        result: int = command.invoke(sub)
        return result


reconcile.params[1:1] = output_options()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. The only broad catch around all commands."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _open_closed_streams()
        _refuse_single_dash(given)
        result = reconcile.main(complete_quick(given), prog_name="reconcile", standalone_mode=False)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        try:
            return _report_error(given, error)
        except (Exception, KeyboardInterrupt) as second:
            return _report_at_last(error, second)
    return result if isinstance(result, int) else IN_SYNC


def _report_error(given: list[str], error: BaseException) -> int:
    """Report an exception that ended a command, and return the exit code."""
    match error:
        case click.UsageError():
            say_error(*_explain_usage(error, error.ctx or _find_context(given)))
        case click.ClickException():
            shown = StringIO()
            error.show(file=shown)
            say(shown.getvalue().removesuffix("\n"), err=True)  # words of the command line may be file names
        case SpecError():
            for problem in error.problems:
                say_error(str(problem))
            say(f"{len(error.problems)} problem{'s' if len(error.problems) > 1 else ''} in the spec", err=True)
        case ReconcilerError():
            say_error(error.message, error.fix)
        case KeyboardInterrupt() | click.Abort():
            say("Interrupted. Recorded results are kept; run the command again to continue.", err=True)
        case BrokenPipeError():
            _drop_output()  # the reader closed the pipe (`| head`)
        case OSError() if is_output_error(error, __name__):
            _drop_output()
            say_error(
                f"cannot write to standard output: {error.strerror} ({errorcode.get(error.errno or 0, 'no number')})",
                "free space where it goes, or write elsewhere; recorded results are kept",
            )
        case FileNotFoundError() if _is_here_gone():
            say_error("the working folder was removed", "`cd` to an existing folder, or use `-C DIR`")
        case OSError() if can_explain(error):
            refused = explain_storage_error(error)
            say_error(refused.message, refused.fix)
        case _:
            return _report_bug(given, error)
    return _choose_exit_code(error)


def _find_context(given: list[str]) -> click.Context:
    """Return the context of the command that was typed, which click leaves out of some errors."""
    context = click.Context(reconcile, info_name="reconcile")
    for word in given:
        command = context.command.get_command(context, word) if isinstance(context.command, click.Group) else None
        if command is not None:
            context = click.Context(command, parent=context, info_name=word)
    return context


def _explain_usage(error: click.UsageError, context: click.Context) -> tuple[str, str]:
    """Return the message, prefixed with its command, and the command's usage."""
    command = context.command_path.removesuffix(f" {WITHOUT_NAME}")
    usage = context.get_usage().removeprefix("Usage: ").replace(context.command_path, command, 1)
    message, near = error.format_message(), ""
    if isinstance(error, click.NoSuchOption):
        message = f"no such option: {error.option_name}"
        near = f"did you mean {' or '.join(error.possibilities)}? " if error.possibilities else ""
    fix = f"{near}{' '.join(usage.split())} (options: {command} --help)"
    if isinstance(error, click.NoSuchOption) and error.option_name == "-C":
        fix = f"-C goes before the command: {command.replace('reconcile', 'reconcile -C DIR', 1)}"
    message = message.removesuffix(".")
    begins = message[:1].lower() + message[1:] if message[1:2].islower() else message
    return f"{command}: {' '.join(begins.split())}", fix


def _choose_exit_code(error: BaseException) -> int:
    match error:
        case ReconcilerError():
            return error.exit_code
        case KeyboardInterrupt() | click.Abort():
            return INTERRUPTED
        case click.ClickException():
            return ERROR
        case FileNotFoundError() if _is_here_gone():
            return ERROR
        case OSError() if isinstance(error, BrokenPipeError) or is_output_error(error, __name__) or can_explain(error):
            return ERROR
    return BUG


def _is_here_gone() -> bool:
    try:
        Path.cwd()
    except OSError:
        return True
    return False


def _refuse_single_dash(given: Sequence[str]) -> None:
    """Reject `-out=foo`, which would be parsed as `-o ut=foo` and write a file of that name."""
    for word in itertools.takewhile(lambda word: word != "--", given):
        if found := _SINGLE_DASH.fullmatch(word):
            raise click.UsageError(f"{word!r}: an option of several letters begins with two hyphens: -{found[0]}")


def _open_closed_streams() -> None:
    """Open a closed stream (`>&-`) on the null device, so that no file opened later gets its descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _drop_output() -> None:
    """Drop buffered output, so that it does not raise again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_bug(given: list[str], error: BaseException) -> int:
    """Report a bug, unless the disk has failed: that is the likelier cause of the error."""
    from reconciler.cli.shared.crash_report import write_report

    report, said = write_report(given, error), f"{type(error).__name__}: {error}"
    if refused := find_refusal_behind(error) or find_refusal(Path()):
        problem = explain_storage_error(refused, verb="read")
        say_error(f"{problem.message}; what it led to, {said}, is in {report}", problem.fix)
        return ERROR
    say_error(
        f"this is a bug in reconcile: {said}",
        f"please send the report {report}; records are safe, and you can run the command again",
    )
    return BUG


def _report_at_last(error: BaseException, second: BaseException) -> int:
    """Report that reporting failed, in one write, without importing or opening anything. If the output is closed, only
    the exit code remains."""
    named, also = ("".join(format_exception_only(each)).strip() for each in (error, second))
    text = f"error: {named}\nerror: {also}, while that was reported\n"
    if isinstance(second, OSError) and can_explain(second):
        text += f"fix: {explain_storage_error(second).fix}\n"
    with contextlib.suppress(Exception, KeyboardInterrupt):
        sys.stderr.write(escape_output(text))
        sys.stderr.flush()
    return _choose_exit_code(error)


if __name__ == "__main__":
    sys.exit(main())
