"""Ids in paths."""

from django.urls.converters import UUIDConverter


class Id(UUIDConverter):
    """`<id:…>`: a UUID as bodies take it, in small letters or capitals."""

    regex = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
