#!/bin/sh

test_description='--json: exactly one document, with the same keys, also when nothing was found and when the command failed'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance with a job that runs, one that ended and one that waits' '
	weir_instance --runner-arg=--cores=0 &&
	done=$(weir submit true) &&
	weir wait $done &&
	mkfifo hold &&
	runs=$(weir submit sh -c "cat hold") &&
	weir job wait-event --quiet $runs start
'

# document STATUS ERRORS KEYS WORDS…: weir WORDS --json ends with that status, prints one document with so many errors and just these keys
document () {
	expected=$1 errors=$2 keys=$3
	shift 3
	test_expect_code $expected weir "$@" --json >out 2>err </dev/null &&
	test "$(jq -s length out)" = 1 &&
	test "$(jq -r "keys_unsorted | join(\" \")" out)" = "$keys" &&
	test "$(jq -r ".errors | length" out)" = $errors &&
	jq -e "[.errors[] | .error | length > 0] | all" out &&
	test "$(jq -r "[.errors[] | keys_unsorted | join(\" \")] | unique | join(\",\")" out | sed "s/id f58 text errnum error//")" = ""
}

wait="jobs failed errors"
test_expect_success 'wait: success, nothing matched, time over, no job, no id' '
	document 0 0 "$wait" wait $done &&
	document 0 0 "$wait" wait - &&
	document 1 1 "$wait" wait --name=nosuch &&
	document 1 1 "$wait" wait &&
	document 1 1 "$wait" wait 4711 &&
	document 2 1 "$wait" wait abc &&
	document 2 1 "$wait" wait --nosuch &&
	document 124 1 "$wait" job wait --timeout=0.1s $runs $done &&
	test "$(jq -r "[.jobs[0].id, .errors[0].text] | join(\" \")" out)" = "$(weir job id $done) $runs" &&
	jq -r ".errors[0].error" out | grep "has not ended after 0.1s"
'

test_expect_success 'wait: any waitable job, and none' '
	weir submit --flags=waitable sh -c "exit 3" >id &&
	document 124 1 "$wait" wait --timeout=0.1s &&
	grep "no waitable job has ended" out &&
	weir cancel $(cat id) &&
	document 1 0 "$wait" wait &&
	test "$(jq .failed[0].id out)" = $(weir job id $(cat id))
'

test_expect_success 'jobs and info' '
	jobs="jobs errors stale queues" info="jobs errors stale" &&
	document 0 0 "$jobs" jobs &&
	document 0 0 "$jobs" jobs --name=nosuch &&
	document 1 1 "$jobs" jobs 4711 &&
	document 2 1 "$jobs" jobs -f runing &&
	document 2 1 "$jobs" jobs --nosuch &&
	document 2 2 "$jobs" jobs 4711 abc $done &&
	document 0 0 "$info" info $done &&
	document 1 1 "$info" info 4711 &&
	document 2 1 "$info" info
'

test_expect_success 'priority and purge' '
	priority="seq changed errors" purge="force count jobs errors inactive seq" &&
	document 1 1 "$priority" job priority $done 5 &&
	document 1 1 "$priority" job priority 4711 5 &&
	test "$(jq -c "[.errors[0].id, .errors[0].f58, .errors[0].text, .errors[0].errnum]" out)" = "[4711,\"ƒ2QE\",\"4711\",22]" &&
	document 2 1 "$priority" job priority 4711 32 &&
	document 2 1 "$priority" job priority abc 5 &&
	document 0 0 "$purge" job purge --all &&
	document 1 1 "$purge" job purge 4711 &&
	document 2 1 "$purge" job purge
'

test_expect_success 'queue status, stats and events' '
	document 0 0 "queues errors" queue status &&
	document 1 1 "queues errors" queue status nosuch &&
	weir stats --json | jq -e ".errors == {}" &&
	document 124 1 "timestamp name context errors" job wait-event --timeout=0.1s $runs finish &&
	document 1 1 "timestamp name context errors" job wait-event 4711 finish &&
	weir job wait-event --json $runs start >out && test "$(jq -r .name out)" = start &&
	document 1 1 errors job eventlog 4711
'

test_expect_success 'submit: a line for each job, those refused among them' '
	keys="id f58 seq known errnum error" &&
	weir submit --json --cc=1-2 true >out && test_line_count = 2 out &&
	test "$(jq -r "keys_unsorted | join(\" \")" out | sort -u)" = "$keys" &&
	test_expect_code 1 weir submit --json -q nosuch true >out 2>err && test_line_count = 1 out &&
	test "$(jq -r "keys_unsorted | join(\" \")" out)" = "$keys" &&
	jq -e ".id == null and .errnum == 1 and (.error | startswith(\"there is no queue\"))" out &&
	test_expect_code 1 weir submit --json --rlimit=nosuch=1 true >out 2>err && test_line_count = 1 out &&
	jq -e ".id == null and (.error | contains(\"nosuch\"))" out
'

test_expect_success 'the store' '
	check="file sound epoch schema seq floor entries jobs active set_aside problems more errors" &&
	document 0 0 "$check" store check &&
	document 1 1 "$check" store check --statedir=nosuch &&
	document 0 0 "file bytes epoch seq errors" store backup copy &&
	document 1 1 "file bytes epoch seq errors" store backup copy
'

test_expect_success 'shutdown' '
	document 124 0 "shut_down waiting jobs elapsed errors" shutdown --timeout=0.1s
'

weir_stop

test_expect_success 'no instance' '
	document 1 1 "$wait" wait 4711 &&
	document 1 1 "$jobs" jobs &&
	document 1 1 "$info" info 4711 &&
	document 1 1 "$priority" job priority 4711 5 &&
	document 1 1 "queues errors" queue status &&
	document 1 1 "shut_down waiting jobs elapsed errors" shutdown &&
	test_expect_code 1 weir stats --json >out 2>err &&
	jq -e ".errors.instance | contains(\"weir start\")" out
'

test_done
