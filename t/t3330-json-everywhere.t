#!/bin/sh

test_description='--json: one document, also of a failure, of commands that act on jobs; words for what was mistyped'

. "$(dirname "$0")/sharness.sh"

# json STATUS COMMAND…: ends with that status and prints one document to ./out
json () {
	expected=$1
	shift
	test_expect_code $expected "$@" >out 2>err && test "$(jq -s length out)" = 1
}

test_expect_success 'jobs that are named one by one' '
	weir_instance &&
	runs=$(weir submit sleep 60) && weir job wait-event $runs start >/dev/null &&
	json 1 weir job kill --json -s USR2 $runs 4711 &&
	jq -e "(.jobs | length) == 1 and .errors[0].id == 4711 and .errors[0].errnum != null" out &&
	weir job wait-event $runs finish >/dev/null &&
	json 140 weir job status --json $runs && jq -e ".status == 140 and .jobs[0].result == \"FAILED\"" out &&
	held=$(weir submit --urgency=hold true) &&
	json 0 weir job raise --json -s 3 -t note $held && jq -e ".jobs[0].f58 and .errors == []" out &&
	json 1 weir cancel --json $held 4711 && jq -e ".count == 2 and .canceled == 1 and (.jobs | length) == 1 and .errors[0].text == \"4711\"" out &&
	json 0 weir job last --json 2 && jq -e ".jobs[0].id == $(weir job id $held)" out &&
	json 0 weir job id --json $held && jq -e ".jobs[0].words and .jobs[0].f58" out &&
	json 0 weir job info --json $held jobspec eventlog && jq -e ".keys.jobspec and .keys.eventlog" out &&
	json 1 weir job info --json $held nosuch && jq -e ".errors[0].id != null and .errors[0].errnum == null or .errors[0].error" out
'

test_expect_success 'what a failure is about is in the document' '
	for command in "dispatch" "job purge" "job clients" "job allocs" "wait" "job kill" "cancel"
	do
		json 2 weir $command --json x-y && jq -e ".errors[0].text == \"x-y\"" out || return 1
	done &&
	for command in "dispatch" "job clients" "job allocs"
	do
		json 1 weir $command --json 4711 && jq -e ".errors[0].id == 4711" out || return 1
	done &&
	json 2 weir submit --json -n x true && jq -e ".id == null and (.error | contains(\"whole number\"))" out &&
	json 1 weir journal --json --after=1 --epoch=0000000000000000 && jq -e ".errors[0].error | contains(\"cannot be continued\")" out &&
	WEIR_URI=local://$PWD/nowhere/socket json 1 weir journal --json && jq -e ".errors | length == 1" out
'

test_expect_success 'what was mistyped is named with what is expected' '
	weir_fails 2 "expected a whole number" -- weir submit -n abc true &&
	weir_fails 2 "--begin-time=+1h: not built yet" -- weir submit --begin-time=+1h true &&
	weir_fails 1 "no queue" "maintenance" "-m" -- weir queue stop maintenance &&
	weir submit -o cpu-afinity=off -o pty true >id 2>err && test_line_count = 2 err &&
	grep "cpu-afinity: no such option" err && grep "pty: this option of Flux has no effect" err &&
	weir submit --cc=1-3 -o cpu-affinity=off true >id 2>err && test_must_be_empty err
'

test_expect_success 'a part that runs does so since the job began' '
	runs=$(weir submit sleep 60) && weir job wait-event $runs start >/dev/null &&
	weir job allocs --json $runs | jq -e ".allocs[0].time != null" &&
	TZ=America/New_York weir job allocs $runs >out && grep -E "T[0-9:]*-0[45]:00" out &&
	weir cancel $runs
'

weir_stop

test_done
