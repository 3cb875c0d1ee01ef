"""A plugin of mypy: what ``msgspec.structs.replace`` is given is checked as ``dataclasses.replace`` is.

msgspec itself types the changes as Any: a misspelt field, or a value of another type, would be seen only when it runs.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import FunctionSigContext, Plugin
from mypy.plugins.dataclasses import replace_function_sig_callback
from mypy.types import CallableType


class TypedReplace(Plugin):
    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], CallableType] | None:
        return _find_signature if fullname == "msgspec.structs.replace" else None


def plugin(version: str) -> type[Plugin]:
    """What mypy asks a plugin's module for."""
    return TypedReplace


def _find_signature(context: FunctionSigContext) -> CallableType:
    """That of a dataclass with these fields, but for the first argument, which has to be a struct."""
    found = replace_function_sig_callback(context)
    struct = context.default_signature.variables[0].upper_bound
    return found.copy_modified(arg_types=[struct, *found.arg_types[1:]])
