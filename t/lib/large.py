"""large.py COUNT BYTES: submits so many jobs whose jobspecs have so many bytes each, all different; prints their F58 ids, a line each."""
import subprocess
import sys

import wire

count, size = int(sys.argv[1]), int(sys.argv[2])
client = wire.Client()
ids = []
for number in range(count):
    spec = wire.jobspec(["true"])
    spec["attributes"]["user"] = {"filling": f"{number:08}" + "x" * size}
    ids.append(client.call("job-ingest.submit", {"J": wire.wrap(spec), "urgency": 16, "flags": 0})["id"])
spelled = subprocess.run(["weir", "job", "id", "--to=f58", *map(str, ids)], check=True, capture_output=True, text=True)
print(spelled.stdout, end="")
