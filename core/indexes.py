"""Indexes with the names that operators and dashboards know."""

from django.db import models


class Index(models.Index):
    """Django keeps index names to 30 characters for other databases' sake; PostgreSQL takes 63."""

    max_name_length = 63
