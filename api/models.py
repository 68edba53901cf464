"""What was answered under an Idempotency-Key, so that a repeated request gets the same answer and changes nothing."""

from django.db import models

from core.ids import new_id
from core.indexes import Index


class IdempotencyKey(models.Model):
    """One answered request of one user; good for 24 hours."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user_id = models.UUIDField()
    route = models.CharField(max_length=100)
    key = models.CharField(max_length=255)
    request_hash = models.CharField(max_length=64)
    status = models.SmallIntegerField()
    body = models.JSONField()
    etag = models.CharField(max_length=32)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "idempotency_keys"
        indexes = [Index(fields=["created_at"], name="ix_idempotency_keys_created_at")]
        constraints = [
            models.UniqueConstraint(fields=["user_id", "route", "key"], name="uq_idempotency_keys_user_route_key")
        ]

    def __str__(self) -> str:
        return f"{self.route} of user {self.user_id}"
