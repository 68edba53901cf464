"""Pages of tables of any size: nobody counts a million rows to be shown fifty."""

from django.core.paginator import Paginator
from django.utils.functional import cached_property

COUNTED_AT_MOST = 1_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # not generic at run time
    """Counts, and pages, no further than COUNTED_AT_MOST rows; what lies behind is for a search or a filter."""

    counted_at_most = COUNTED_AT_MOST

    @cached_property
    def count(self) -> int:
        return int(self.object_list.order_by()[: self.counted_at_most].count())  # type: ignore[attr-defined]  # a queryset
