#!/usr/bin/env bash
# Makes an interpreter that has the flydsl of one side (base or head), and leaves its path in $RUNNER_TEMP/python-SIDE.
# PREPARE names a script in that side's own checkout, called as: PREPARE FOLDER, which must make FOLDER/bin/python.
set -euo pipefail
side=$1
if [ "${GATE_PREINSTALLED:-}" = 1 ] && [ -z "${PREPARE:-}" ]; then
  command -v "${GATE_PYTHON:-python3}" > "$RUNNER_TEMP/python-$side"
  exit 0
fi
folder=$RUNNER_TEMP/flydsl-$side
if [ -n "${PREPARE:-}" ]; then
  (cd "$side" && bash "./$PREPARE" "$folder")
else
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "flydsl==$FLYDSL" numpy
fi
"$folder/bin/python" -c 'import flydsl'
echo "$folder/bin/python" > "$RUNNER_TEMP/python-$side"
