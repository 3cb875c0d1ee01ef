"""Environment variables in location fields, and values that no field may contain: other variables and secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from reconciler.errors import Problem
from reconciler.resource.inputs import Origin
from reconciler.spec.nodes import ListNode, MapNode, Node, ScalarNode
from reconciler.spec.quantities import UnfitError, show_quantity
from reconciler.storage.escaping import expand_variables, hide_location, hide_value

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ANY_VARIABLE = re.compile(r"\$\{|\$\(|\$[A-Za-z_]")

# Patterns of secrets, by description. `pr` searches a branch's additions for the same patterns.
SECRETS = {
    "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----",
    "an access token": r"\b(?:gh[opsur]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{18,}"
    r"|hf_[A-Za-z0-9]{24,}|nvapi-[A-Za-z0-9_-]{24,}|xox[abprs]-[A-Za-z0-9-]{10,}|sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,})"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.",
    "an access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[A-Za-z0-9_-]{35}\b",
}
_SECRET = re.compile("|".join((*SECRETS.values(), r"://[^/\s:@]+:[^/\s@]+@")))
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_.-])(?:pass(?:word|wd|phrase)|secret|credentials?|(?:api|access|private|secret)[_-]?key"
    r"|(?:access|api|auth|bearer|hf|ngc|refresh|secret)[_-]?token)$|^token$"
)

# Names of secrets in workflows, clouds and registries.
_SECRET_VARIABLE = re.compile(
    r"(?i)secret|token|passw|passphrase|passwd|credential|cookie|signature|(?:^|_)(?:key|pat|pwd|auth|jwt|sas)$"
    r"|(?:api|access|private|account|encryption|signing|ssh|deploy)_?key"
)
_SENT = ("MLPERF_", "RECONCILE_")
LISTED = "RECONCILE_STORE_VARIABLES"


class Variables(Struct, frozen=True):
    """The environment, and the variables read from it (None: not set). ``written``: locations that contain variables,
    before expansion. ``unset``: variables used in locations that have no value here."""

    environment: Mapping[str, str]
    read: dict[str, str | None] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    unset: set[str] = field(default_factory=set)

    def expand(self, text: str, *, sent: bool = False) -> str:
        """Replace each ``${NAME}`` in ``text``. Return it unchanged if one is not set, since a location is not part of
        the identity, and may exist on another machine. Raises UnfitError for names of secrets and for other notations.
        ``sent``: the result leaves this machine, so each variable must be set and must have a permitted name: one that
        reveals nothing about this account, or is listed in RECONCILE_STORE_VARIABLES."""
        if _ANY_VARIABLE.search(_VARIABLE.sub("", text)):
            problem = f"{show_quantity(text)} uses an unsupported variable syntax"
            raise UnfitError(problem, "write it as ${NAME}")
        if text.startswith("~"):
            raise UnfitError(f"{show_quantity(text)}: '~' is not expanded", "write ${HOME} instead of ~")
        for name in _VARIABLE.findall(text):
            self._refuse_variable(name, sent)
            self.read[name] = value = self.environment.get(name)
            if value:
                hide_value(name, value)
            else:
                self.unset.add(name)
        missing = [name for name in _VARIABLE.findall(text) if name in self.unset]
        if missing:
            if sent:
                raise explain_unset(missing[0])
            return text
        expanded = expand_variables(text, self.environment)
        if expanded != text:
            self.written.add(text)
            if not hide_location(text, expanded):
                message = f"{show_quantity(text)} is only {len(expanded)} characters, too short to mask in output"
                raise UnfitError(message, "write the path itself, or use a variable for a complete path")
        return expanded

    def _refuse_variable(self, name: str, sent: bool) -> None:
        """Refuse secrets, since a spec may come from a pull request, which must not decide what is shown or sent."""
        if _SECRET_VARIABLE.search(name):
            fix = "use a variable with a location; write secrets as {from_env: NAME}"
            raise UnfitError(f"the environment variable {name} looks like a secret, not a location", fix)
        if sent and not may_be_sent(name, self.environment):
            fix = f"write the value itself, or, to send it to the store: export {LISTED}={name}"
            raise UnfitError(f"the environment variable {name} would be sent to the store", fix)


def may_be_sent(name: str, environment: Mapping[str, str]) -> bool:
    """Return True if a store declared in a spec may receive the value of this variable."""
    return name.startswith(_SENT) or name in environment.get(LISTED, "").split(",")


def explain_unset(name: str) -> UnfitError:
    fix = f"export {name}=/path/to/it, or write the path here"
    return UnfitError(f"the environment variable {name} is not set", fix)


def find_users(root: MapNode, names: Collection[str]) -> dict[str, Origin]:
    """Map each variable to the first place that uses it."""
    found: dict[str, Origin] = {}
    for _, _, node in _list_scalars(root, ()) if names else ():
        for name in _VARIABLE.findall(node.value) if isinstance(node.value, str) else ():
            if name in names:
                found.setdefault(name, node.origin)
    return found


def find_misplaced(root: MapNode, refuses_variables: Callable[[tuple[str, ...]], bool]) -> list[Problem]:
    """Find variables outside location fields, and values that look like secrets (never repeated in the message).
    ``refuses_variables``: whether the field at a path refuses variables."""
    checked = (_check_scalar(*scalar, refuses_variables) for scalar in _list_scalars(root, ()))
    return list({(each.file, each.line, each.column): each for each in checked if each is not None}.values())


def _list_scalars(
    node: Node, path: tuple[str, ...], origin: Origin | None = None
) -> Iterator[tuple[tuple[str, ...], Origin, Any]]:
    if isinstance(node, MapNode):
        for name, item in node.items.items():
            yield from _list_scalars(item, (*path, name), node.keys[name])
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from _list_scalars(item, path, item.origin)
    else:
        yield path, origin or node.origin, node


def _check_scalar(
    path: tuple[str, ...], name_origin: Origin, node: ScalarNode, refuses_variables: Callable[[tuple[str, ...]], bool]
) -> Problem | None:
    value, name = node.value, path[-1] if path else ""
    dotted = ".".join(path)
    if _SECRET.search(name):
        dotted = ".".join(path[:-1])
        return _refuse_secret(name_origin, dotted, "the name looks like a secret")
    if not isinstance(value, str):
        return None
    if _SECRET.search(value) or (value and _SECRET_NAME.search(name)):
        return _refuse_secret(node.origin, dotted, "the value looks like a secret")
    if "$" in value and _ANY_VARIABLE.search(value) and refuses_variables(path):
        message = f"{show_quantity(value)} uses an environment variable; only paths and store urls may"
        return node.origin.make_problem(dotted, message, "write the value itself")
    return None


def _refuse_secret(origin: Origin, path: str, message: str) -> Problem:
    fix = "remove it, revoke it if it was committed, and write {from_env: NAME} where supported"
    return origin.make_problem(path, message, fix)
