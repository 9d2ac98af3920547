#!/bin/sh
# Deploys what prefect.yaml says, then works. CURATE_POOL says where runs happen: in a process of this worker, in a
# container of `docker`, or in a job of `kubernetes` (docs/pools.md). The pool is created once, and stays as it is.
set -eu
pool="${CURATE_POOL:-process}"
case "$pool" in
process) set -- ;;
docker | kubernetes) set -- --base-job-template "deploy/pools/$pool.json" ;;
*) echo "CURATE_POOL is '$pool'; use process, docker or kubernetes" >&2 && exit 2 ;;
esac
export PREFECT_WORKER_WEBSERVER_HOST="${PREFECT_WORKER_WEBSERVER_HOST:-127.0.0.1}" # where /health answers
export PREFECT_WORKER_WEBSERVER_PORT="${PREFECT_WORKER_WEBSERVER_PORT:-4201}"
python3 -c 'import os, socket
socket.create_server((os.environ["PREFECT_WORKER_WEBSERVER_HOST"], int(os.environ["PREFECT_WORKER_WEBSERVER_PORT"])))
' 2>/dev/null || {
  echo "nothing can listen on $PREFECT_WORKER_WEBSERVER_HOST:$PREFECT_WORKER_WEBSERVER_PORT, where perhaps another" \
    "worker does; give this one a port of its own for /health: PREFECT_WORKER_WEBSERVER_PORT=4202" >&2 && exit 2
}
[ -z "${CURATE_AUDIT:-}" ] || mkdir -p "$CURATE_AUDIT" # a volume of the explorer, whose folder would else be root's
if made=$(prefect work-pool inspect curation --output json 2>/dev/null); then
  case "$made" in
  *"\"type\": \"$pool\""*) ;;
  *) echo "the pool 'curation' is of another type than $pool; delete it: prefect work-pool delete curation" >&2 && exit 2 ;;
  esac
else
  prefect work-pool create curation --type "$pool" "$@" >/dev/null
fi
deployed=$(prefect --no-prompt deploy --all 2>&1) || { echo "$deployed" >&2 && exit 1; }
# The worker and its runs write one log: plain lines, or JSON alone (CURATE_LOG_FORMAT=json). Both go to stderr; what
# Prefect prints to stdout beside them, such as tracebacks while the server restarts, goes nowhere. What containers of
# Docker print is on the worker's stdout, so it stays open for these; their lines are those of deploy/pools/docker.json.
export PREFECT_LOGGING_HANDLERS_CONSOLE_CLASS=flows.running.log_lines.WorkerLog
export PREFECT_LOGGING_HANDLERS_DEBUG_CLASS=flows.running.log_lines.WorkerLog
export PREFECT_CLIENT_RETRY_EXTRA_CODES=500 # what the server says while its database restarts
export CURATE_WORKER_PID=$$ # `exec` keeps it
[ "$pool" = docker ] || exec >/dev/null
exec prefect worker start --pool curation --type "$pool" --with-healthcheck
