"""Serializers whose fields are snake_case in code and camelCase on the wire, and reading requests by them."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.request import Request

from api.names import wire_name
from api.problems import BadRequestValues, Fault, LengthRequired, pointer_to


class Body(serializers.Serializer[Any]):
    """An object of the API, declared in snake_case, read and written in camelCase; an unknown member is refused."""

    default_error_messages = {"invalid": "must be an object"}

    # Names on the wire that are not just the camelCase of those in code.
    WIRE_NAMES: ClassVar[Mapping[str, str]] = {}

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = {}
        for name, field in super().get_fields().items():
            on_the_wire = self.WIRE_NAMES.get(name) or wire_name(name)
            if on_the_wire != name and field.source is None:
                field.source = name
            fields[on_the_wire] = field
        return fields

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """The values by their names in code."""
        if isinstance(data, Mapping) and (unknown := [str(name) for name in data if name not in self.fields]):
            raise serializers.ValidationError({name: ["is not a member of this object"] for name in unknown})
        values: dict[str, Any] = super().to_internal_value(data)
        return values


class Empty(Body):
    """An object without members; the body may be left out."""


def read(kind: type[Body], request: Request, *, partial: bool = False) -> dict[str, Any]:
    """The body's values by their names in code; `partial` lets any member be left out.

    Raises BadRequestValues, and LengthRequired for a body in chunks, which the server shows to nobody.
    """
    if request.headers.get("Transfer-Encoding"):
        raise LengthRequired
    data = {} if _is_absent(request) else request.data
    serializer = kind(data=data, partial=partial)
    if not serializer.is_valid():
        raise BadRequestValues(_faults(serializer.errors))
    return dict(serializer.validated_data)


def query(kind: type[Body], request: Request) -> dict[str, Any]:
    """The query's values by their names in code; raises BadRequestValues, also for a parameter that is none."""
    parameters = request.query_params
    fields = kind().fields
    faults = [Fault(name, "is not a parameter here", "parameter") for name in parameters if name not in fields]
    faults += [
        Fault(name, "is given twice", "parameter")
        for name in parameters
        if name in fields and len(parameters.getlist(name)) > 1 and not isinstance(fields[name], serializers.ListField)
    ]
    if faults:
        raise BadRequestValues(faults)
    values = {
        name: parameters.getlist(name) if isinstance(fields[name], serializers.ListField) else parameters[name]
        for name in parameters
    }
    serializer = kind(data=values, context={"is_query": True})
    if not serializer.is_valid():
        raise BadRequestValues(
            Fault(name, "; ".join(fault.detail for fault in _faults(errors)), "parameter")
            for name, errors in serializer.errors.items()
        )
    return dict(serializer.validated_data)


def _is_absent(request: Request) -> bool:
    length = request.META.get("CONTENT_LENGTH")
    return not length or length == "0"


def _faults(errors: Any, pointer: str = "") -> Iterator[Fault]:
    if isinstance(errors, Mapping):
        for name, inner in errors.items():
            own = str(name) == "non_field_errors"
            yield from _faults(inner, pointer if own else pointer + pointer_to(str(name)))
        return
    sentences = [str(error) for error in errors if not isinstance(error, Mapping | list)]
    if sentences:
        yield Fault(pointer, " ".join(sentences))
    for position, inner in enumerate(errors):
        if isinstance(inner, Mapping | list) and inner:
            yield from _faults(inner, f"{pointer}/{position}")
