"""Who acts. Rules ask the actor's part in a record; the audit log keeps who really acted."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self
from uuid import UUID


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
