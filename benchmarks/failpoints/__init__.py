"""kill -9 between any two statements of every path that writes, enumerated from the code (part of `make soak`)."""
