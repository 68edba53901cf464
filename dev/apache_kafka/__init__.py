"""Apache Kafka itself, one node (KRaft), from its Maven artifacts and Java 17 or later: no container engine needed."""

from dev.apache_kafka.node import ApacheKafka, Unavailable, fetch, is_fetched

__all__ = ["ApacheKafka", "Unavailable", "fetch", "is_fetched"]
