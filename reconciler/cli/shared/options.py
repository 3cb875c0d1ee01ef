"""Options that several commands share, and the conversion of command-line words into the options of a pass."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from reconciler.cli.shared.output import NO_COLOUR, VERBOSE, WIDE, hold_back, say_deferred, say_json
from reconciler.errors import SpecError
from reconciler.resource.pipeline import Kind
from reconciler.storage.storage_errors import explain_storage_error

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class ExistingPath(click.Path):
    """A file or folder to read. Click's own type reports every path that it cannot access as missing, even if the disk
    fails or permission is denied: this one raises StorageError with the reason."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True, path_type: type[Any] | None = None) -> None:
        super().__init__(exists=True, file_okay=file_okay, dir_okay=dir_okay, path_type=path_type)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        kind, named = self.name.title(), repr(os.fspath(value))
        if not os.fspath(value):
            self.fail(
                f"it needs a {self.name.replace('directory', 'folder')}, and an empty word names none", param, ctx
            )
        try:
            is_folder = stat.S_ISDIR(Path(value).stat().st_mode)
            if not os.access(value, os.R_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(value))
        except (FileNotFoundError, NotADirectoryError):
            self.fail(f"{kind} {named} does not exist", param, ctx)
        except OSError as error:
            raise explain_storage_error(error, Path(value), "read") from error
        if is_folder and not self.dir_okay:
            self.fail(f"{kind} {named} is a directory.", param, ctx)
        if not is_folder and not self.file_okay:
            self.fail(f"{kind} {named} is a file.", param, ctx)
        return self.coerce_path_result(value)


_Function = TypeVar("_Function", bound=Callable[..., Any])
_KINDS = [kind.value for kind in Kind]


def output_options() -> list[click.Parameter]:
    """Options of every command, which work both before and after its name."""

    def make_flag(names: list[str], apply: Callable[[click.Context], object], text: str) -> click.Option:
        def callback(context: click.Context, _: click.Parameter, asked: bool) -> None:
            if asked:
                apply(context)

        return click.Option(names, is_flag=True, expose_value=False, callback=callback, help=text)

    no_colour = "No colour on any terminal; NO_COLOR in the environment does the same."
    wide = "Never fold or shorten lines and tables to fit the terminal. Output to a file or pipe never is."
    verbose = "Show the log of a pass, plan or audit on standard error; it is in .reconcile/log/ in any case."
    quiet = "Print nothing unless something is wrong: no progress, and no report if the command exits with 0."
    return [
        make_flag(["--no-color"], lambda context: context.meta.update({NO_COLOUR: True}), no_colour),
        make_flag(["--wide"], lambda context: context.meta.update({WIDE: True}), wide),
        make_flag(["-v", "--verbose"], _show_log, verbose),
        make_flag(["-q", "--quiet"], hold_back, quiet),
    ]


def _show_log(context: click.Context) -> None:
    """Show the log once, even if the option is given both before and after the command."""
    if not context.meta.get(VERBOSE):
        from reconciler.storage.event_log import show_on_terminal

        context.meta[VERBOSE] = True
        show_on_terminal()


def file_option(text: str, *, required: bool = False) -> click.Option:
    """The file that a command writes."""
    path = click.Path(dir_okay=False, path_type=Path)
    return click.Option(["-o", "--output"], type=path, required=required, metavar="FILE", help=text)


def json_option() -> click.Option:
    return click.Option(["--json", "as_json"], is_flag=True, help="Report as JSON on standard output.")


def selection_options() -> list[click.Parameter]:
    """Options that select cells: also those of `plan`, `apply` and `status`."""
    return [
        click.Option(
            ["--exclude"],
            multiple=True,
            metavar="SELECTOR",
            shell_complete=_complete_selectors,
            help="Leave out what matches, such as scenario=Server. Repeated, each leaves out more.",
        ),
        click.Option(
            ["--only"],
            multiple=True,
            type=click.Choice(_KINDS, case_sensitive=False),
            metavar="KIND",
            help=f"Only resources of this kind ({', '.join(_KINDS)}). May be repeated.",
        ),
        click.Option(["--deep"], is_flag=True, help="Hash every stored file, whatever its timestamp says."),
    ]


def busy_option() -> click.Option:
    text = "Time runs even while others use the GPUs or processors; the records say so."
    return click.Option(["--busy"], is_flag=True, envvar="RECONCILE_BUSY", help=text)


def wait_idle_option() -> click.Option:
    text = "Wait at most this long for exclusive use of the machine, such as 30 min. Default: 12 h."
    return click.Option(["--wait-idle"], type=_Wait(), metavar="DURATION", envvar="RECONCILE_WAIT_IDLE", help=text)


class _Wait(click.ParamType[float]):
    """A duration in the format of specs, converted to seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from reconciler.spec.quantities import UnfitError, parse_duration

        if isinstance(value, float):
            return value
        try:
            return parse_duration(value, "ms") / 1000
        except UnfitError as error:
            self.fail(str(error), param, ctx)


QUICK = "--quick"
QUICK_DURATION = "10 s"  # if the option has no value


def quick_option() -> click.Option:
    text = (
        "Runs of 10 s, or of another duration such as 60s: VALID for LoadGen, too short for the round. They are "
        "marked, and never published."
    )
    return click.Option(
        [QUICK], type=_Wait(), default=0.0, metavar="[=DURATION]", help=text, callback=_refuse_no_duration
    )


def _refuse_no_duration(context: click.Context, option: click.Parameter, seconds: float) -> float:
    """Reject an explicit 0: it means "option not given", so the runs would last as long as the spec says, without
    marks."""
    assert option.name
    if not seconds and context.get_parameter_source(option.name) is not ParameterSource.DEFAULT:
        raise click.BadParameter("a run needs some time, such as 10s", context, option)
    return seconds


def complete_quick(words: Sequence[str]) -> list[str]:
    """Insert the default duration after each ``--quick`` without one: the next word is never its value."""
    end = words.index("--") if "--" in words else len(words)
    return [f"{QUICK}={QUICK_DURATION}" if word == QUICK and at < end else word for at, word in enumerate(words)]


def running_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--rerun"],
            multiple=True,
            metavar="SELECTOR",
            shell_complete=_complete_selectors,
            help="Repeat what matches even though nothing changed. Repeated, each adds more.",
        ),
        click.Option(["--commit"], is_flag=True, help="Commit the new records, and nothing else, to git."),
        busy_option(),
        wait_idle_option(),
        click.Option(
            ["--wait"],
            type=click.FloatRange(min=0),
            default=0.0,
            metavar="SECONDS",
            help="Wait this long for another pass in this repository to end.",
        ),
    ]


def queue_options() -> list[click.Parameter]:
    """Options for queues on other machines."""
    return [
        click.Option(
            ["--jobs"],
            type=click.IntRange(min=0),
            default=0,
            metavar="N",
            help="Run at most this many steps at a time, on all machines together. Default: no limit.",
        ),
        click.Option(
            ["--detach"],
            is_flag=True,
            help="End once only jobs of a queue are left; `reconcile attach` follows them. Ctrl-C leaves them, "
            "too, instead of cancelling them.",
        ),
    ]


def reporting_options() -> list[click.Parameter]:
    text = "Show every cell, however many there are."
    return [json_option(), click.Option(["--all", "show_all"], is_flag=True, help=text)]


def pass_options() -> list[click.Parameter]:
    return [*selection_options(), *running_options(), *queue_options(), quick_option(), *reporting_options()]


def cell_argument(*, required: bool = True) -> click.Argument:
    metavar = "CELL" if required else "[CELL]"
    return click.Argument(["cell"], required=required, metavar=metavar, shell_complete=_complete_cells)


def complete_refs(_: click.Context, __: click.Parameter, beginning: str) -> list[CompletionItem]:
    """Complete arguments and options that name a commit."""
    from reconciler.cli.shared import completion

    return completion.complete_refs(beginning)


def complete_rounds(_: click.Context, __: click.Parameter, beginning: str) -> list[CompletionItem]:
    from reconciler.cli.shared import completion

    return completion.complete_rounds(beginning)


def _complete_cells(context: click.Context, _: click.Parameter, beginning: str) -> list[CompletionItem]:
    from reconciler.cli.shared import completion

    return completion.complete_cells(beginning, context.params.get("specs") or ())


def _complete_selectors(_: click.Context, __: click.Parameter, beginning: str) -> list[CompletionItem]:
    from reconciler.cli.shared import completion

    return completion.complete_selectors(beginning)


def _complete_words(context: click.Context, _: click.Parameter, beginning: str) -> list[CompletionItem]:
    from reconciler.cli.shared import completion

    return completion.complete_words(beginning, context.params.get("words") or ())


def spec_option() -> click.Option:
    """For commands whose argument is a cell."""
    return click.Option(
        ["--spec", "specs"],
        multiple=True,
        type=ExistingPath(),
        metavar="SPEC",
        help="Read this spec instead of all in specs/. May be repeated.",
    )


def split_words(metavar: str = "[SPEC|SELECTOR]...") -> click.Argument:
    """Spec files, and selectors such as benchmark=resnet: the "=" distinguishes them."""
    return click.Argument(["words"], nargs=-1, metavar=metavar, shell_complete=_complete_words)


def takes(parameters: Iterable[click.Parameter]) -> Callable[[_Function], _Function]:
    """Give a command these parameters, in this order. It decorates a plain function, so it belongs below
    ``@click.command``. With --json, the command reports the problems of a broken spec as a document; with --quiet, it
    prints its deferred output if it does not succeed."""

    def attach(function: _Function) -> _Function:
        @wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            try:
                code = function(*arguments, **named)
                say_deferred(code)
                return code
            except SpecError as error:
                if not named.get("as_json"):
                    raise
                from reconciler.render.documents import render_document

                name = click.get_current_context().info_name
                say_json(render_document(str(name), valid=False, problems=error.problems))
                return error.exit_code

        # click reads a function's parameters in reverse, since decorators are applied from the inside out.
        run.__click_params__ = [*output_options(), *reversed(list(parameters))]  # type: ignore[attr-defined]
        return cast(_Function, run)

    return attach
