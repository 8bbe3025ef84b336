"""``serving.py FILE``: serves a model session once it is told to, and prints the number of requests it sent."""

import sys
from pathlib import Path

from gage_eval.engine.runtime import Runtime
from gage_eval.engine.session import ModelSession
from gage_eval.stages.sharing import serve

if __name__ == "__main__":
    session = ModelSession.from_json(Path(sys.argv[1]).read_text())
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    with Runtime() as runtime:
        sys.stdout.write(str(serve(session, runtime)))
