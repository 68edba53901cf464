"""Tests of the consumer that tells people."""
