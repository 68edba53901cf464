"""Tests of the consumer between the CRM and the calendar."""
