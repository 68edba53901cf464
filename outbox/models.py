"""The outbox's tables (spec: outbox). `publish` writes them, the relay empties the queue, messages are never updated.

The ready queue, the parked rows and the blocked keys have no foreign key to the messages: a queue pays for each check,
and `purge_outbox` never touches what one of them names.
"""

from typing import ClassVar

from django.db import models


class OutboxMessage(models.Model):
    """A message as it is sent. Append-only: kept for OUTBOX_RETENTION_DAYS after it was published."""

    id = models.BigAutoField(primary_key=True)
    message_id = models.UUIDField()
    dedup_key = models.TextField()
    topic = models.TextField()
    key = models.TextField()
    contract_version = models.SmallIntegerField()
    payload = models.TextField()
    headers = models.TextField()
    tenant_id = models.UUIDField()
    correlation_id = models.UUIDField()
    traceparent = models.TextField(null=True)  # noqa: DJ001  (absent is not empty: a header that is not sent)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "outbox_messages"
        permissions: ClassVar = [
            ("retry_outboxmessage", "Can have parked messages retried"),
            ("skip_outboxmessage", "Can skip parked messages"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["message_id"], name="uq_outbox_messages_message_id"),
            models.UniqueConstraint(fields=["dedup_key"], name="uq_outbox_messages_told_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["key"], name="ix_outbox_messages_key")]

    def __str__(self) -> str:
        return f"{self.topic} {self.message_id}"


class OutboxReady(models.Model):
    """The queue: a message that is still to be published. The row goes when the broker has acknowledged it."""

    pk = models.CompositePrimaryKey("shard", "id")
    shard = models.SmallIntegerField()
    id = models.BigIntegerField()

    class Meta:
        db_table = "outbox_ready"
        constraints: ClassVar = [
            models.CheckConstraint(condition=models.Q(shard__range=(0, 7)), name="ck_outbox_ready_shard"),
        ]

    def __str__(self) -> str:
        return f"{self.shard}/{self.id}"


class OutboxBlockedKey(models.Model):
    """A key that a message which can't be published holds back, with the error and the time of the next attempt."""

    pk = models.CompositePrimaryKey("topic", "key")
    topic = models.TextField()
    key = models.TextField()
    shard = models.SmallIntegerField()
    reason = models.TextField()
    error = models.TextField()
    attempt_count = models.IntegerField()
    blocked_at = models.DateTimeField()
    next_attempt_at = models.DateTimeField()

    class Meta:
        db_table = "outbox_blocked_keys"
        indexes: ClassVar = [models.Index(fields=["next_attempt_at"], name="ix_outbox_blocked_keys_due")]

    def __str__(self) -> str:
        return f"{self.topic} {self.key}"


class OutboxParked(models.Model):
    """A message of a blocked key, out of the queue: the poison message itself, or one that waits behind it."""

    id = models.BigIntegerField(primary_key=True)
    topic = models.TextField()
    key = models.TextField()
    parked_at = models.DateTimeField()

    class Meta:
        db_table = "outbox_parked"
        indexes: ClassVar = [models.Index(fields=["topic", "key", "id"], name="ix_outbox_parked_key")]

    def __str__(self) -> str:
        return f"{self.topic} {self.id}"
