#!/bin/sh
# An offset that a streaming query does not have is the text "null" in Python, or the text "None": it depends on who asks.
#
# Versions: PySpark 4.2.0 (classic session).
# Good guess: SourceProgress.startOffset is None for the first micro-batch, whose JSON has null there; and a listener and
#   StreamingQuery.recentProgress say the same of one micro-batch.
# Seen: recentProgress gives 'null' and a StreamingQueryListener gives 'None', both of type str, by attribute and by item.
#   The field `json` of both has null.
# For a user: `if source.latestOffset:` is always true, and json.loads of it gives None or fails, so code that was tested
#   with one of the two breaks with the other. A repeated micro-batch, after a restart, has no latest offset either. Read
#   json.loads(progress.json) instead.
#
# Needs: python3 with venv, a JDK of version 17 or newer, timeout, 500 MB. It exits with 0 if all this is still so.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"

python3 -m venv venv
timeout 600 venv/bin/pip install -q --disable-pip-version-check pyspark==4.2.0

cat > progress.py <<'PYTHON'
import json
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

session = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
session.sparkContext.setLogLevel("OFF")
told = []


class Listener(StreamingQueryListener):
    def onQueryStarted(self, event):
        pass

    def onQueryProgress(self, event):
        told.append(event.progress)

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        pass


session.streams.addListener(Listener())
query = session.readStream.format("rate").load().writeStream.format("noop").start()
for _ in range(300):
    if told and query.recentProgress:
        break
    time.sleep(0.2)
polled = query.recentProgress[0]
query.stop()
for name, progress in (("polled", polled), ("listener", told[0])):
    source = progress.sources[0]
    print(name, repr(source.startOffset), repr(source["startOffset"]), json.loads(progress.json)["sources"][0]["startOffset"])
PYTHON
timeout 300 venv/bin/python progress.py > seen 2>log || { cat log; exit 1; }
cat seen

if grep -qx "polled 'null' 'null' None" seen && grep -qx "listener 'None' 'None' None" seen; then
    echo "still so"
else
    echo "CHANGED"
    exit 1
fi
