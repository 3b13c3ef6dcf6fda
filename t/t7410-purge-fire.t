#!/bin/sh

test_description='purges and deaths: no file is left behind, none is removed that should stay'

. "$(dirname "$0")/sharness.sh"

# until_stats FILTER: asks for the counters until the filter says true, at most 60 seconds
until_stats () {
	until_end=$(($(date +%s) + 60))
	until weir stats --json 2>/dev/null | jq -e ".\"job-manager\" | $1" >/dev/null
	do
		test $(date +%s) -lt $until_end || return 1
	done
}

test_expect_success 'an instance, and jobs that have ended' '
	weir_instance --runner-arg=--cores=0-1 &&
	for number in 1 2 3
	do
		weir submit echo $number || return 1
	done >ids &&
	weir wait $(cat ids) &&
	weir job id --to=dec $(cat ids) >dec &&
	set -- $(cat dec) &&
	for id in $1 $2 $3
	do
		test -s state/jobs/$id/output.eventlog || return 1
	done
'

test_expect_success 'a job-manager killed between the purge and the removal of files removes them when it is back' '
	set -- $(cat dec) &&
	mkdir state/jobs/4711 && echo evidence >state/jobs/4711/output.eventlog &&
	mkfifo locked unlock &&
	{ flock --exclusive --no-fork state/jobs/$2/claim sh -c "echo >locked; timeout 60 cat unlock" & } &&
	read word <locked; test -d state/jobs/$2 &&
	weir job purge --all --force >out &&
	grep "purged 3 jobs" out &&
	until_stats ".unswept == 1" &&
	! test -e state/jobs/$1 && ! test -e state/jobs/$3 &&
	test -s state/jobs/$2/output.eventlog &&
	kill -KILL $(weir_daemon weir-job-manager) &&
	echo >unlock &&
	until_stats ".unswept == 0" &&
	! test -e state/jobs/$2 &&
	test -f state/jobs/4711/output.eventlog &&
	weir submit true >next && weir wait $(cat next) &&
	test $(weir job id --to=dec $(cat next)) -gt $3
'

test_expect_success 'kill -9 in the middle of a purge of many: what is left is whole, a second purge ends it' '
	weir submit --urgency=hold --cc=1-3000 true >many &&
	weir cancel --all --quiet &&
	for round in 1 2 3
	do
		{ weir job purge --num-limit=100 --force >out.$round 2>err.$round & } &&
		purger=$! &&
		until_stats ".inactive_purged > 200" &&
		kill -KILL $(weir_daemon weir-job-manager) &&
		{ wait $purger || :; } || return 1
	done &&
	weir journal --from=all --no-follow --json >journal &&
	weir jobs --fresh -a -c 0 -n -o "{id.dec}" | sort >listed &&
	jq -r "select(.id != null).id" journal | sort -u >entries &&
	test_cmp entries listed &&
	jq -r "select(.entry.name == \"purge\").entry.context.jobs[]" journal >purged &&
	sort -u purged >once && test_line_count = $(wc -l <purged) once &&
	weir job id --to=dec $(cat many) $(cat next) | sort >all &&
	sort listed purged | grep -v -x -f dec | sort >accounted &&
	test_cmp all accounted &&
	weir job purge --all --force &&
	until_stats ".inactive_jobs == 0 and .unswept == 0" &&
	test "$(ls state/jobs)" = 4711
'

weir_stop

test_done
