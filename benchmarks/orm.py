"""The outbox as a plain loop over the ORM fills it."""

import datetime
import json
import zlib
from typing import Any
from uuid import UUID

from core import clock
from core.ids import new_id
from outbox.models import OutboxMessage, OutboxReady


def tell(topic: str, key: UUID, version: str, payload: dict[str, Any], *, as_of: datetime.datetime, run: UUID) -> None:
    """One message and its place in the queue."""
    message_id = new_id()
    headers = {
        "ce_specversion": "1.0",
        "ce_id": str(message_id),
        "ce_type": topic,
        "ce_source": "/pin/calendar",
        "ce_time": clock.iso(as_of),
        "ce_subject": str(key),
        "content-type": "application/json",
        "ce_correlationid": str(run),
        "ce_tenantid": payload["tenantId"],
    }
    message = OutboxMessage.objects.create(
        message_id=message_id,
        dedup_key=f"{topic}:{payload.get('reminderId', key)}{version}",
        topic=topic,
        key=str(key),
        contract_version=1,
        payload=json.dumps(payload, separators=(",", ":")),
        headers=json.dumps(headers, separators=(",", ":")),
        tenant_id=payload["tenantId"],
        correlation_id=run,
        created_at=as_of,
    )
    OutboxReady.objects.create(shard=zlib.crc32(str(key).encode()) % 8, id=message.id)
