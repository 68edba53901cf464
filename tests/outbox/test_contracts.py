"""The generated artefacts of the messages are current, and say what is really sent."""

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary
from cloudevents.core.formats.json import JSONFormat

from contracts import generate
from contracts.base import Contract, Message
from contracts.calendar import PUBLISHED, ReminderDue
from contracts.crm import CONSUMED
from contracts.samples import EXAMPLES
from outbox.models import OutboxMessage
from tests.outbox import asyncapi
from tests.outbox.relaying import tell

ROOT = Path(generate.__file__).parent.parent
each_message = pytest.mark.parametrize("message", PUBLISHED, ids=lambda message: message.__name__)


def stored(kind: str, message: type[Contract]) -> Any:
    return json.loads((ROOT / "contracts" / kind / f"{message.TOPIC}.json").read_text())


def test_the_committed_artefacts_are_those_of_the_classes() -> None:
    assert generate.drifted() == []


def test_a_changed_a_missing_and_a_stray_file_are_named(tmp_path: Path) -> None:
    assert set(generate.write(tmp_path)) == set(generate.artefacts())
    changed, missing, stray = (
        f"contracts/schemas/{ReminderDue.TOPIC}.json",
        "docs/messages.md",
        "contracts/examples/pin.calendar.unknown.v1.json",
    )
    (tmp_path / changed).write_text("{}")
    (tmp_path / missing).unlink()
    shutil.copy(tmp_path / changed, tmp_path / stray)

    assert generate.drifted(tmp_path) == sorted([changed, missing, stray])

    generate.write(tmp_path)
    assert generate.drifted(tmp_path) == []


@pytest.mark.parametrize("message", [*PUBLISHED, *CONSUMED], ids=lambda message: message.__name__)
def test_the_example_is_valid_and_reads_back(message: type[Contract]) -> None:
    example = stored("examples", message)

    jsonschema_rs.Draft202012Validator(stored("schemas", message), validate_formats=True).validate(example)
    assert message.model_validate(example) == EXAMPLES[message]


@each_message
def test_the_schema_refuses_what_is_not_sent(message: type[Message]) -> None:
    schema, example = stored("schemas", message), stored("examples", message)
    jsonschema_rs.meta.validate(schema)
    validator = jsonschema_rs.Draft202012Validator(schema)

    for name in schema["required"]:
        assert not validator.is_valid({key: value for key, value in example.items() if key != name})
    assert not validator.is_valid({**example, "occurredAt": "2026-03-01T09:00:00+00:00"})
    assert not validator.is_valid({**example, "contractVersion": 2})


@each_message
def test_absent_is_not_null(message: type[Message]) -> None:
    assert None not in stored("examples", message).values()
    optional = [name for name, field in message.model_fields.items() if field.default is None]
    bare = EXAMPLES[message].model_copy(update=dict.fromkeys(optional))

    jsonschema_rs.Draft202012Validator(stored("schemas", message)).validate(json.loads(bare.to_json()))


def test_the_asyncapi_document_has_the_structure_of_version_3() -> None:
    document = json.loads((ROOT / "contracts/asyncapi.json").read_text())
    validator = jsonschema_rs.Draft202012Validator(asyncapi.DOCUMENT)

    validator.validate(document)
    for name, channel in document["channels"].items():
        assert not validator.is_valid(
            {**document, "channels": {name: {**channel, "publish": {}}}}
        )  # as version 2 had it
    for message in document["components"]["messages"].values():
        for example in message["examples"]:
            jsonschema_rs.Draft202012Validator(message["payload"], validate_formats=True).validate(example["payload"])


def test_every_reference_of_the_asyncapi_document_leads_somewhere() -> None:
    document = json.loads((ROOT / "contracts/asyncapi.json").read_text())

    def references(node: Any) -> list[str]:
        if isinstance(node, dict):
            here = [node["$ref"]] if "$ref" in node else []
            return here + [found for value in node.values() for found in references(value)]
        return [found for value in node for found in references(value)] if isinstance(node, list) else []

    found = references(document)
    assert len(found) >= 4 * len(PUBLISHED)
    for reference in found:
        target = document
        for step in reference.removeprefix("#/").split("/"):
            target = target[step]
    topics = {message.TOPIC for message in (*PUBLISHED, *CONSUMED)}
    assert {channel["address"] for channel in document["channels"].values()} == topics


@pytest.mark.django_db(transaction=True)
def test_the_headers_are_a_cloud_event_and_those_documented() -> None:
    message = EXAMPLES[ReminderDue]

    tell([message])

    row = OutboxMessage.objects.get()
    headers = json.loads(row.headers)
    jsonschema_rs.Draft202012Validator(generate.HEADERS, validate_formats=True).validate(headers)
    assert set(headers) <= set(generate.HEADERS["properties"])
    event = from_binary(
        KafkaMessage(
            headers={name: value.encode() for name, value in headers.items()},
            key=row.key.encode(),
            value=row.payload.encode(),
        ),
        JSONFormat(),
    )
    assert (event.get_id(), event.get_type(), event.get_source()) == (str(row.message_id), row.topic, "/pin/calendar")
    assert (event.get_subject(), event.get_time()) == (message.key, message.occurred_at)
    assert event.get_data() == json.loads(row.payload)
    assert event.get_extension("tenantid") == str(row.tenant_id)
    assert event.get_extension("correlationid") == str(row.correlation_id)
