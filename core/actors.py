"""Who acts. Rules ask the actor's part in a record; the audit log keeps who really acted."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self
from uuid import UUID

from django.db.models import Q

_NOTHING = Q(pk__in=())


class ActorKind(StrEnum):
    USER = "User"
    TENANT_ADMIN = "TenantAdmin"
    OPERATOR = "Operator"
    SYSTEM = "System"


@dataclass(frozen=True, slots=True)
class Actor:
    """`user_id` is the platform's id of a person, None for the system; `tenant_id` comes from the actor's token."""

    kind: ActorKind
    user_id: UUID | None = None
    tenant_id: UUID | None = None

    @classmethod
    def system(cls) -> Self:
        """Workers and consumers: all tenants, no person."""
        return cls(ActorKind.SYSTEM)

    @classmethod
    def user(cls, user_id: UUID, *, tenant_id: UUID | None = None) -> Self:
        return cls(ActorKind.USER, user_id, tenant_id)

    @classmethod
    def tenant_admin(cls, user_id: UUID, *, tenant_id: UUID) -> Self:
        return cls(ActorKind.TENANT_ADMIN, user_id, tenant_id)

    @classmethod
    def operator(cls, user_id: UUID | None = None) -> Self:
        """PIN's operations staff, through the Django admin: all tenants."""
        return cls(ActorKind.OPERATOR, user_id)

    @property
    def is_system(self) -> bool:
        return self.kind is ActorKind.SYSTEM

    def acts_for_owner(self, owner_user_id: UUID, tenant_id: UUID) -> bool:
        """An owner in their tenant; a tenant admin for any owner of the tenant; an operator for anybody."""
        match self.kind:
            case ActorKind.OPERATOR:
                return True
            case ActorKind.TENANT_ADMIN:
                return self.tenant_id == tenant_id
            case ActorKind.USER:
                return self.user_id == owner_user_id and self.tenant_id == tenant_id
            case ActorKind.SYSTEM:
                return False

    def owned(self, *, prefix: str = "") -> Q:
        """`acts_for_owner` as a condition on rows with an owner and a tenant, or on those that `prefix` leads to."""
        in_tenant = Q(**{f"{prefix}tenant_id": self.tenant_id})
        match self.kind:
            case ActorKind.OPERATOR:
                return Q()
            case ActorKind.TENANT_ADMIN if self.tenant_id is not None:
                return in_tenant
            case ActorKind.USER if self.tenant_id is not None and self.user_id is not None:
                return in_tenant & Q(**{f"{prefix}owner_user_id": self.user_id})
            case _:
                return _NOTHING

    def received(self, *, prefix: str = "") -> Q:
        """The condition on rows with a client that the actor is that client."""
        return Q(**{f"{prefix}client_user_id": self.user_id}) if self.user_id is not None else _NOTHING
