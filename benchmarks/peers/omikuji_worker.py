"""Train and predict with omikuji defaults (three trees); run by a Python that has omikuji: omikuji_worker.py FOLDER."""

import json
import os
import shutil
import sys
import time

import numpy as np
import omikuji
import scipy.sparse as sp

folder = sys.argv[1]
X, Y, X_test = (sp.load_npz(f"{folder}/{name}.npz").tocsr().astype(np.float32) for name in ("X", "Y", "X_test"))
usable = (np.diff(X.indptr) > 0) & (np.diff(Y.indptr) > 0)  # omikuji refuses a file with other points
X, Y = X[usable], Y[usable]
with open(f"{folder}/train.txt", "w") as file:  # omikuji reads files only; writing it is not counted
    file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
    for i in range(X.shape[0]):
        labels = ",".join(map(str, Y.indices[Y.indptr[i] : Y.indptr[i + 1]]))
        row = slice(X.indptr[i], X.indptr[i + 1])
        pairs = " ".join(f"{f}:{v:.6g}" for f, v in zip(X.indices[row], X.data[row]))  # noqa: B905
        file.write(f"{labels} {pairs}\n")
started = time.perf_counter()
model = omikuji.Model.train_on_data(f"{folder}/train.txt")
trained = time.perf_counter()
single, rows, columns, scores = [], [], [], []
for i in range(X_test.shape[0]):
    row = slice(X_test.indptr[i], X_test.indptr[i + 1])
    point = list(zip(X_test.indices[row].tolist(), X_test.data[row].tolist()))  # noqa: B905
    begin = time.perf_counter()
    best = model.predict(point, top_k=5)
    single.append(time.perf_counter() - begin)
    rows += [i] * len(best)
    columns += [label for label, _ in best]
    scores += [score for _, score in best]
shutil.rmtree(f"{folder}/omikuji", ignore_errors=True)  # of a round before, whose files it would leave
model.save(f"{folder}/omikuji")
size = sum(os.path.getsize(os.path.join(path, f)) for path, _, files in os.walk(f"{folder}/omikuji") for f in files)
shape = (X_test.shape[0], Y.shape[1])
sp.save_npz(f"{folder}/ranked.npz", sp.csr_matrix((np.asarray(scores, np.float32), (rows, columns)), shape=shape))
times = {"train_s": trained - started, "predict_s": sum(single), "model_mb": size / 1e6}
times |= {"single_p50_ms": 1e3 * float(np.median(single)), "single_p99_ms": 1e3 * float(np.percentile(single, 99))}
print(json.dumps(times))
