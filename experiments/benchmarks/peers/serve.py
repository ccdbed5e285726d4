"""Serve one module of this folder: a request a line in, ``answer(**request)`` a line out, as JSON.

python serve.py MODULE THREADS
"""

import importlib
import json
import os
import sys
from contextlib import redirect_stdout

if __name__ == "__main__":
    name, os.environ["OMP_NUM_THREADS"] = sys.argv[1:]
    answers = sys.stdout
    with redirect_stdout(sys.stderr):  # what libraries print must not mix with the answers
        answer = importlib.import_module(name).answer
        for line in sys.stdin:
            print(json.dumps(answer(**json.loads(line))), file=answers, flush=True)
