#!/bin/sh
# run_julia.sh FILE [ARGUMENT...]: runs a Julia program, or says why not and exits with 77, which is
# Meson's number for a test that was skipped.
julia=${TALUS_JULIA:-julia}
reason=$TALUS_JULIA_SKIP
command -v "$julia" > /dev/null || reason="no $julia on the path, or named in TALUS_JULIA"
if [ -n "$reason" ]; then
  echo "SKIPPED: $reason"
  exit 77
fi
exec "$julia" --startup-file=no "$@"
