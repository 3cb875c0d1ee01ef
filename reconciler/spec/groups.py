"""Base of every group of a spec: a mapping with fixed names. A group without content (``Offline:``) is empty."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self, TypeVar, overload

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo

from reconciler.resource.parts import PARTS
from reconciler.spec import fields
from reconciler.spec.quantities import UnfitError
from reconciler.spec.scalars import FieldReader

Default = TypeVar("Default")


def _convert_empty(value: Any) -> Any:
    return {} if value is None else value


class RecordedAs(str):
    """Mark of a field whose value is named differently among the settings than its path in the spec."""

    __slots__ = ()


UNREAD = "makes nothing stale"  # marks a field that enters no key although its group does


def name_field(field: FieldInfo, default: str) -> str:
    """Return the name of the field's value among the settings."""
    return next((str(mark) for mark in field.metadata if isinstance(mark, RecordedAs)), default)


class Group(BaseModel):
    """A mapping with fixed names. ``NAMED``: whether declaring the group is significant even if it is empty."""

    NAMED: ClassVar[bool] = False

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _accept_empty(cls, value: Any) -> Any:
        return _convert_empty(value)

    @classmethod
    def list_names(cls) -> list[str]:
        """Return the names of the fields, as a spec writes them."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def list_unread(cls) -> list[str]:
        """Return the names of the fields that make nothing stale."""
        return [name for name, field in cls.model_fields.items() if UNREAD in field.metadata]

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return the group itself. It is immutable, so pydantic need not copy it as a default for each cell."""
        return self


@overload
def describe(text: str) -> Any: ...


@overload
def describe(text: str, default: Default) -> Default: ...


def describe(text: str, default: Any = None) -> Any:
    """Declare a field with its description. ``default``: None for a value that may be missing."""
    return Field(default, description=text)


def read_by(part: str) -> FieldReader:
    """Mark a field that an optional part reads, so that it is refused if the part was removed."""

    def refuse_where_removed(value: Any) -> Any:
        if value and part not in PARTS:
            raise UnfitError(f"this installation does not include {part}", "remove it, or install the complete project")
        return value

    return FieldReader(refuse_where_removed)


Empty = BeforeValidator(_convert_empty)
Options = Annotated[dict[str, fields.FreeValue], Empty]
