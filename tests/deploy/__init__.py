"""Tests of what the system is deployed and watched with."""
