"""`make soak`: the real workers for minutes under load and faults, then the proof that nothing was lost or doubled."""
