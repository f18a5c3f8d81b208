"""Engines for tests: parts computed from copies, as a worker on another machine gets them."""

from __future__ import annotations

import pickle

from longtail.core.engine import Engine
from longtail.engine.transport import Sent, pack, unpack


class Store:
    """An object store: what was put, by number; arrays come back read-only, as from Ray's."""

    def __init__(self):
        self.arrays = []

    def put(self, array):
        self.arrays.append(array.copy())
        self.arrays[-1].flags.writeable = False
        return len(self.arrays) - 1

    def get(self, references):
        return [self.arrays[reference] for reference in references]


class Elsewhere(Engine):
    """Computes parts in this process, but from pickled copies of what they share and of the parts themselves."""

    has_helpers = True

    def __init__(self, store):
        self.store = store

    def results(self, task):
        content, references = pack(task.shared, Sent(self.store.put), pickle.Pickler)
        shared = unpack(content, self.store.get(references))
        parts = pickle.loads(pickle.dumps(list(task.parts)))
        return task.counted(range(len(parts)), (task.work(shared, part) for part in parts))
