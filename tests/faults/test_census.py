"""Each way of writing to the database is found by the census, wherever in the code it is."""

import pytest

from benchmarks.failpoints.census import writers_in

WRITING = {
    "a decorator": "@transaction.atomic(durable=True)\ndef f(): ...",
    "a block": "def f():\n    with transaction.atomic():\n        g()",
    "an INSERT": "def f():\n    execute('INSERT INTO t VALUES (1)')",
    "an UPDATE with an alias, over lines": "def f():\n    execute('''UPDATE t AS x\n SET a = 1''')",
    "an UPDATE of a table by name": "def f():\n    execute(f'UPDATE {t} SET a = 1')",
    "a DELETE in a query": "def f():\n    fetch('WITH g AS (DELETE FROM t RETURNING id) SELECT 1')",
    "a statement of the module": "S = 'DELETE FROM t WHERE a'\ndef f():\n    execute(S)",
    "save": "def f(thing):\n    thing.save()",
    "a manager": "def f():\n    T.objects.create(a=1)",
    "a query set": "def f():\n    T.objects.filter(a=1).update(a=2)",
    "a query set with a name": "def f(rows):\n    rows.delete()",
}
READING = {
    "a query": "def f():\n    fetch('SELECT 1 FROM t FOR UPDATE')",
    "a dictionary": "def f(d):\n    d.update({1: 2})",
    "a docstring": "def f():\n    '''UPDATE t SET a = 1'''",
    "a use case": "def f():\n    diary.create(draft)",
}


@pytest.mark.parametrize("source", WRITING.values(), ids=WRITING.keys())
def test_what_writes_is_found(source: str) -> None:
    assert writers_in(source) == {"f"}


@pytest.mark.parametrize("source", READING.values(), ids=READING.keys())
def test_what_only_reads_is_not(source: str) -> None:
    assert writers_in(source) == set()


def test_methods_and_inner_functions_have_the_names_of_their_code() -> None:
    source = "class C:\n    def m(self):\n        def g():\n            self.save()\n        return g"

    assert writers_in(source) == {"C.m.<locals>.g"}
