#!/usr/bin/env bash
# The demo: a private instance on its embedded defaults runs real jobs, the waiting ones are reordered, the listing
# and the journal behind it are shown, a daemon is killed and nothing is lost. Ends by itself, status 0 if all was so.
set -euo pipefail
bin=${WEIR_BIN:?the folder of the weir programs}
export PATH="$bin:$PATH"
if [ "${1-}" != inside ]; then
  unset WEIR_URI FLUX_URI
  exec weir start bash "$0" inside
fi

bold= dim= plain=
if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; fi
step=0
say() { step=$((step + 1)); printf '\n%s%d. %s%s\n' "$bold" "$step" "$*" "$plain"; }
# show COMMAND: prints it as it could be typed, and runs it
show() {
  local word line='$'
  for word; do
    case "$word" in *[!A-Za-z0-9_./:=,@+ƒ-]*) word=${word@Q} ;; esac
    line+=" $word"
  done
  printf '%s%s%s\n' "$dim" "$line" "$plain"
  "$@"
}

say "A private instance is up: three daemons behind one socket"
show weir ping --count 1 job-manager
show weir ping --count 1 job-list

say "A job: run it attached, its output and its exit status come back"
show weir run '--env=-*' --env=PATH --env=LANG '--env=LC_*' sh -c 'echo "hello from job $WEIR_JOB_ID"'

say "Submit twelve more; they wait for a free core"
ids=()
for i in $(seq 12); do
  ids+=("$(weir submit --job-name "step-$i" sh -c 'sleep 0.4; echo done with $WEIR_JOB_ID')")
done
show weir jobs

last=("${ids[@]: -3}")
say "Raise the last three: one request, one commit, one reorder; the very next listing shows it"
show weir job priority "${last[@]}" 31
show weir jobs
top=$(weir jobs --no-header --filter pending --format '{id}' | head -n 1)

say "kill -9 the job-manager while jobs run and wait: it comes back, nothing is lost"
pid=$(weir stats | sed -n 's/^job-manager  *pid  *//p')
show kill -9 "$pid"
show weir job wait-event --timeout 20 "${ids[11]}" clean
for id in "${ids[@]}"; do weir job wait-event --quiet --timeout 30 "$id" clean; done
show weir jobs -a --count 20

say "The output of the job that jumped the queue"
show weir job attach "${last[0]}"

say "The journal behind it all: every change of every job, in order, to the last one"
show weir journal --from all --allow submit,urgency,alloc,clean --until-caught-up | tail -n 15

failed=$(weir jobs -a --no-header --filter failed --format '{id}' | wc -l)
done=$(weir jobs -a --no-header --filter completed --format '{id}' | wc -l)
say "$done jobs completed, $failed failed; the first to wait after the raise was $top"
[ "$failed" = 0 ] && [ "$done" = 13 ] && [ -n "$top" ]
