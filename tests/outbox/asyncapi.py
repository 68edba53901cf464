"""The part of AsyncAPI 3.0 that the document uses, typed a second time: what an object must and may have."""

from typing import Any

_TEXT = {"type": "string", "minLength": 1}
_NAMED = "^[\\w.-]+$"


def _object(required: str, optional: str = "", **known: Any) -> dict[str, Any]:
    """An object of these fields and no others; those that are not said to be otherwise are texts."""
    names = required.split()
    properties = {name: known.get(name, _TEXT) for name in [*names, *optional.split()]}
    return {"type": "object", "required": names, "properties": properties, "additionalProperties": False}


def _map(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "minProperties": 1, "patternProperties": {_NAMED: values}, "additionalProperties": False}


_REFERENCE = _object("$ref")
_JSON_SCHEMA = {"$ref": "https://json-schema.org/draft/2020-12/schema"}

DOCUMENT = _object(
    "asyncapi info channels operations components",
    "defaultContentType",
    asyncapi={"const": "3.0.0"},
    info=_object("title version", "description"),
    channels=_map(
        _object(
            "address messages",
            "description bindings",
            messages=_map(_REFERENCE),
            bindings=_object("kafka", kafka=_object("bindingVersion", "topic")),
        )
    ),
    operations=_map(
        _object(
            "action channel",
            "messages",
            action={"enum": ["send", "receive"]},
            channel=_REFERENCE,
            messages={"type": "array", "items": _REFERENCE},
        )
    ),
    components=_object(
        "",
        "schemas messages",
        schemas=_map(_JSON_SCHEMA),
        messages=_map(
            _object(
                "payload",
                "name title summary contentType headers bindings examples",
                payload=_JSON_SCHEMA,
                headers={"anyOf": [_REFERENCE, _JSON_SCHEMA]},
                bindings=_object("kafka", kafka=_object("bindingVersion", "key", key=_JSON_SCHEMA)),
                examples={"type": "array", "items": _object("payload", "name headers", payload={}, headers={})},
            )
        ),
    ),
)
"""A JSON Schema."""
