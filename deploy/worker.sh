#!/bin/sh
# Deploys what prefect.yaml says, then works. The pool exists once; a second creation says so and changes nothing.
set -eu
prefect work-pool inspect curation >/dev/null 2>&1 || prefect work-pool create curation --type process
prefect --no-prompt deploy --all
exec prefect worker start --pool curation --type process
