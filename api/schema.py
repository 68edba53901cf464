"""What the OpenAPI document (drf-spectacular) needs to know of the kit."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import serializers

from api.bodies import Body


class FaultBody(Body):
    """What is wrong with one value. One of pointer, parameter and header says where."""

    pointer = serializers.CharField(required=False, help_text="JSON pointer into the body.")
    parameter = serializers.CharField(required=False, help_text="Name of a query parameter.")
    header = serializers.CharField(required=False, help_text="Name of a header.")
    detail = serializers.CharField()


class ProblemBody(Body):
    """RFC 9457. `code` is stable; further members tell the facts of a refusal, such as currentStatus or conflicts."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField()
    instance = serializers.CharField(help_text="The correlation id of the request, as a URN.")
    errors = FaultBody(many=True, required=False)  # type: ignore[assignment]
    current_status = serializers.CharField(required=False, help_text="The record's status, where that is the reason.")


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "api.authentication.BearerToken"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}


def describe_bodies(result: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
    """A hook of the generator: bodies take no member that they do not name, and may be left out when none is needed."""
    schemas = result.get("components", {}).get("schemas", {})
    for operations in result["paths"].values():
        for body in (operation["requestBody"] for operation in operations.values() if "requestBody" in operation):
            [content] = body["content"].values()
            _close(content["schema"], schemas)
            if not schemas[content["schema"]["$ref"].rpartition("/")[2]].get("required"):
                body["required"] = False
    return result


def _close(schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    if "$ref" in schema:
        named = schemas[schema["$ref"].rpartition("/")[2]]
        if named.get("type") == "object" and "additionalProperties" not in named:
            named["additionalProperties"] = False
            for member in named.get("properties", {}).values():
                _close(member, schemas)
    elif "items" in schema:
        _close(schema["items"], schemas)
