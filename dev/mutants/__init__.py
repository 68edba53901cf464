"""Mutation check of the core: each small defect put into its rules must make a test fail (`make mutants`).

Cosmic Ray, with operators of its own and ours (`operators`), makes the mutants in an environment of its own
(`generate`). They are tried by processes that have imported everything but this project and fork a child a mutant
(`trial`), as starting Python and Django anew for each would take longer than the tests. A mutant lives in the memory of
its child; no file is touched.
"""
