"""`python -m contracts.generate [--check]`: everything about the messages that is printed from their classes.

JSON Schemas and an example each, the AsyncAPI document, and the page for people. With --check nothing is written: exit
code 1 and the names of what differs from the classes.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from contracts.base import Contract, Message, Once
from contracts.calendar import PUBLISHED
from contracts.crm import CONSUMED
from contracts.samples import EXAMPLES

_ROOT = Path(__file__).resolve().parent.parent
_GENERATED_DIRECTORIES = ("contracts/schemas", "contracts/examples")
_ALL: tuple[type[Contract], ...] = (*PUBLISHED, *CONSUMED)

# The headers that `outbox.publish` writes: CloudEvents 1.0, Kafka binding, binary mode.
HEADERS: dict[str, Any] = {
    "type": "object",
    "required": [
        "ce_specversion",
        "ce_id",
        "ce_type",
        "ce_source",
        "ce_time",
        "ce_subject",
        "content-type",
        "ce_correlationid",
        "ce_tenantid",
    ],
    "properties": {
        "ce_specversion": {"type": "string", "const": "1.0"},
        "ce_id": {"type": "string", "format": "uuid", "description": "Id of the message; a repeat carries the same."},
        "ce_type": {"type": "string", "description": "The topic's name."},
        "ce_source": {"type": "string", "const": "/pin/calendar"},
        "ce_time": {"type": "string", "format": "date-time", "description": "occurredAt of the value."},
        "ce_subject": {"type": "string", "description": "The record's key."},
        "content-type": {"type": "string", "const": "application/json"},
        "ce_correlationid": {
            "type": "string",
            "format": "uuid",
            "description": "Shared by all that one request, worker cycle or consumed message led to.",
        },
        "ce_tenantid": {"type": "string", "format": "uuid"},
        "traceparent": {"type": "string", "description": "W3C trace context, when the change was traced."},
    },
}
# Of these the consumers read what is here and need the id; other CloudEvents headers may be there too.
CONSUMED_HEADERS: dict[str, Any] = {
    "type": "object",
    "required": ["ce_id"],
    "properties": {name: HEADERS["properties"][name] for name in ("ce_id", "ce_correlationid", "traceparent")},
}


def schema(message: type[Contract]) -> dict[str, Any]:
    """The JSON Schema of the value, flat, with absent instead of null: as it is sent, or as it may be sent to us."""
    is_consumed = message in CONSUMED
    generated = message.model_json_schema(by_alias=True, mode="validation" if is_consumed else "serialization")
    definitions = generated.get("$defs", {})
    optional = {
        field.serialization_alias or field.alias or name
        for name, field in message.model_fields.items()
        if field.default is None or (is_consumed and not field.is_required())
    }
    properties = {name: _flat(node, definitions) for name, node in generated["properties"].items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": message.__name__,
        "description": generated["description"],
        "type": "object",
        "required": [name for name in properties if name not in optional],
        "properties": properties,
    }


def _flat(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The property without titles, defaults, references, and the null that is never sent."""
    if "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    if "anyOf" in node:
        (node,) = (option for option in node["anyOf"] if option.get("type") != "null")
        return _flat(node, definitions)
    return {name: value for name, value in node.items() if name not in ("title", "default", "description")}


def asyncapi() -> dict[str, Any]:
    """The AsyncAPI 3.0 document: a channel and an operation a topic, with key, headers and example."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "PIN calendar",
            "version": "1.0.0",
            "description": "What the calendar context tells and hears: at least once, in order per key.",
        },
        "defaultContentType": "application/json",
        "channels": {
            message.__name__: {
                "address": message.TOPIC,
                "description": _first_line(message),
                "messages": {message.__name__: {"$ref": f"#/components/messages/{message.__name__}"}},
                "bindings": {"kafka": {"topic": message.TOPIC, "bindingVersion": "0.5.0"}},
            }
            for message in _ALL
        },
        "operations": {
            f"{verb}{message.__name__}": {
                "action": action,
                "channel": {"$ref": f"#/channels/{message.__name__}"},
                "messages": [{"$ref": f"#/channels/{message.__name__}/messages/{message.__name__}"}],
            }
            for verb, action, messages in (("tell", "send", PUBLISHED), ("hear", "receive", CONSUMED))
            for message in messages
        },
        "components": {
            "schemas": {"CloudEventsHeaders": HEADERS, "ConsumedHeaders": CONSUMED_HEADERS},
            "messages": {message.__name__: _asyncapi_message(message) for message in _ALL},
        },
    }


def _asyncapi_message(message: type[Contract]) -> dict[str, Any]:
    payload = {name: value for name, value in schema(message).items() if name != "$schema"}
    key = {"type": "string", "format": "uuid", "description": f"{_key_name(message)} of the value"}
    headers = "ConsumedHeaders" if message in CONSUMED else "CloudEventsHeaders"
    return {
        "name": message.__name__,
        "title": message.__name__,
        "summary": _first_line(message),
        "contentType": "application/json",
        "headers": {"$ref": f"#/components/schemas/{headers}"},
        "payload": payload,
        "bindings": {"kafka": {"key": key, "bindingVersion": "0.5.0"}},
        "examples": [{"payload": json.loads(EXAMPLES[message].to_json())}],
    }


def page() -> str:
    """`docs/messages.md`."""
    parts = [
        "# Messages",
        "Printed from the classes in `contracts/` by `make schemas`; do not edit.",
        "At least once, in order per key; a repeat carries the same `ce_id`. Values are UTF-8 JSON. Instants are UTC "
        "with six fraction digits and Z. Fields marked ? are absent when empty; readers ignore fields that they do not "
        "know. `aggregateVersion` orders the messages about one appointment or event across topics.",
        "| topic | key | told once for | what it tells |\n|---|---|---|---|\n"
        + "\n".join(
            f"| `{message.TOPIC}` | {_key_name(message)} | {_told_once(message)} | {_first_line(message)} |"
            for message in PUBLISHED
        ),
        "## Headers\n\nCloudEvents 1.0, binary mode.\n\n| header | value |\n|---|---|\n"
        + "\n".join(f"| `{name}` | {_header(node)} |" for name, node in HEADERS["properties"].items()),
        *(_section(message) for message in PUBLISHED),
        "# What the calendar hears",
        "From the CRM, in `contracts/crm.py`. Each record needs a `ce_id`, the same for each repeat; `ce_correlationid`"
        " and `traceparent` are carried on. A revision that is not newer than the one applied is ignored.",
        *(_section(message) for message in CONSUMED),
    ]
    return "\n\n".join(parts) + "\n"


def _section(message: type[Contract]) -> str:
    described = schema(message)
    rows = "\n".join(
        f"| `{name}`{'' if name in described['required'] else ' ?'} | {_type(node)} |"
        for name, node in described["properties"].items()
    )
    example = _json(json.loads(EXAMPLES[message].to_json())).rstrip()
    fields = f"| field | type |\n|---|---|\n{rows}"
    return f"## {message.TOPIC}\n\n{_first_line(message)}\n\n{fields}\n\n```json\n{example}\n```"


def _first_line(message: type[Contract]) -> str:
    return (message.__doc__ or "").strip().partition("\n")[0]


def _key_name(message: type[Contract]) -> str:
    alias = message.model_fields[message.KEY_FIELD].alias
    return alias or message.KEY_FIELD


def _told_once(message: type[Message]) -> str:
    subject = message.model_fields[message.SUBJECT_FIELD].alias
    return f"{subject}, aggregateVersion" if message.ONCE is Once.A_VERSION else f"{subject}"


def _header(node: dict[str, Any]) -> str:
    said = [f"`{node['const']}`"] if "const" in node else []
    said += [node["format"]] if "format" in node else []
    said += [node["description"]] if "description" in node else []
    return ". ".join(said)


def _type(node: dict[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(node["enum"])
    if "const" in node:
        return f"always {node['const']}"
    limits = [f">= {node['minimum']}"] if "minimum" in node else []
    limits += [f"<= {node['maximum']}"] if "maximum" in node else []
    return " ".join([str(node.get("format", node["type"])), *limits])


def artefacts() -> dict[str, str]:
    """Every generated file, by its path from the root of the repository."""
    files = {"contracts/asyncapi.json": _json(asyncapi()), "docs/messages.md": page()}
    for message in _ALL:
        files[f"contracts/schemas/{message.TOPIC}.json"] = _json(schema(message))
        files[f"contracts/examples/{message.TOPIC}.json"] = _json(json.loads(EXAMPLES[message].to_json()))
    return files


def _json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def drifted(root: Path = _ROOT) -> list[str]:
    """The files that differ from the classes, are missing, or belong to no class any more."""
    files = artefacts()
    stale = [path for path, text in files.items() if not (root / path).is_file() or (root / path).read_text() != text]
    present = {str(found.relative_to(root)) for name in _GENERATED_DIRECTORIES for found in (root / name).glob("*")}
    return sorted({*stale, *(present - set(files))})


def write(root: Path = _ROOT) -> list[str]:
    """Bring the files up to the classes; the paths of those that changed."""
    changed, files = drifted(root), artefacts()
    for path in changed:
        if path in files:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(files[path])
        else:
            (root / path).unlink()
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m contracts.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and name what differs")
    is_check = parser.parse_args().check
    changed = drifted() if is_check else write()
    for path in changed:
        sys.stdout.write(f"{path} {'differs from the classes: run make schemas' if is_check else 'written'}\n")
    return int(is_check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
