"""Published packages that do what ours does, each as its authors document it, in an environment of its own."""
