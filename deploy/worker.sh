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
[ -z "${CURATE_AUDIT:-}" ] || mkdir -p "$CURATE_AUDIT" # a volume of the explorer, whose folder would else be root's
if made=$(prefect work-pool inspect curation --output json 2>/dev/null); then
  case "$made" in
  *"\"type\": \"$pool\""*) ;;
  *) echo "the pool 'curation' is of another type than $pool; delete it: prefect work-pool delete curation" >&2 && exit 2 ;;
  esac
else
  prefect work-pool create curation --type "$pool" "$@"
fi
deployed=$(prefect --no-prompt deploy --all 2>&1) || { echo "$deployed" >&2 && exit 1; }
lines=PlainLines
if [ "${CURATE_LOG_FORMAT:-}" = json ]; then # what is logged goes to stderr; stdout has sentences for people
  lines=JsonLines
  exec >/dev/null
fi
export PREFECT_LOGGING_HANDLERS_CONSOLE_FORMATTER=json PREFECT_LOGGING_FORMATTERS_JSON_FORMAT='%(message)s'
export PREFECT_LOGGING_FORMATTERS_JSON_CLASS="flows.running.log_lines.$lines" # in place of the JSON of Prefect
exec prefect worker start --pool curation --type "$pool" --with-healthcheck
