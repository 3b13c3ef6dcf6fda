#!/bin/sh

test_description='weir jobs: which jobs, in which order, true at once'

. "$(dirname "$0")/sharness.sh"

# One core that is busy; two that wait; and some of each end.
test_expect_success 'jobs in every state' '
	weir_instance --runner-arg=--cores=0 &&
	weir submit --job-name=good true >good &&
	weir submit --job-name=bad sh -c "exit 3" >bad &&
	weir submit --job-name=killed sh -c "kill -9 \$\$" >killed &&
	weir submit --job-name=late -t 0.1s sleep 60 >late &&
	test_expect_code 1 weir wait $(cat good bad killed late) 2>/dev/null &&
	weir submit --job-name=never -n 4096 true >never &&
	test_expect_code 1 weir wait $(cat never) 2>/dev/null &&
	mkfifo hold &&
	weir submit --job-name=runs sh -c "cat hold" >runs &&
	weir job wait-event --quiet $(cat runs) start &&
	weir submit --job-name=canceled true >canceled &&
	weir cancel -m "not needed" $(cat canceled) &&
	weir submit --job-name=waits true >waits &&
	weir submit --job-name=first --urgency=20 true >first &&
	weir submit --job-name=held --urgency=hold true >held
'

# names ARGUMENTS: the names of the jobs listed, in order
names () {
	weir jobs -n -o "{name}" "$@" | xargs
}

test_expect_success 'active jobs: pending by priority, then running' '
	test "$(names)" = "first waits held runs"
'

test_expect_success 'ended ones too, the latest first' '
	test "$(names -a | cut -d " " -f 1-4)" = "first waits held runs" &&
	test "$(names -a | wc -w)" = 10 &&
	test "$(names -a -c 5)" = "first waits held runs canceled" &&
	test "$(names -f inactive -c 2)" = "canceled never"
'

test_expect_success 'as many as asked for' '
	weir jobs -n -a -c 3 >out 2>err &&
	test_line_count = 3 out &&
	test_must_be_empty err &&
	weir jobs -n -a -c 0 >out 2>err &&
	test_line_count = 10 out &&
	test_must_be_empty err
'

test_expect_success 'by state and by result' '
	test "$(names -f pending)" = "first waits held" &&
	test "$(names -f running)" = runs &&
	test "$(names -f completed)" = good &&
	test "$(names -f canceled)" = canceled &&
	test "$(names -f timeout)" = late &&
	test "$(names -f failed)" = "never killed bad" &&
	test "$(names -f sched,completed | wc -w)" = 4
'

test_expect_success 'by expression' '
	test "$(names -f "pending and not name:held")" = "first waits" &&
	test "$(names -f "name:bad or (running -name:good)")" = "runs bad" &&
	test "$(names -a --name=good,bad | wc -w)" = 2 &&
	test "$(names -A -f "user:root and completed")" = good &&
	test "$(names -f "t_submit:>-1h and pending" | wc -w)" = 3 &&
	test -z "$(names -f "t_submit:<-1h")"
'

test_expect_success 'by user and by time' '
	test -z "$(names -u 4711 -a)" &&
	test "$(names -u $(id -u) -f running)" = runs &&
	test "$(names -A -f running)" = runs &&
	test "$(names --since=-1h | wc -w)" = 10 &&
	test "$(names --since=now | wc -w)" = 4
'

test_expect_success 'by id, in any spelling and in the order given' '
	test "$(names $(cat held) $(weir job id --to=dec $(cat good)) $(weir job id --to=dothex $(cat runs)))" = "held good runs" &&
	test "$(cat waits good | names -)" = "waits good" &&
	test_expect_code 1 weir jobs -n -o "{name}" $(cat good) 1234 >out 2>err &&
	echo good >expected && test_cmp expected out &&
	grep "no such job 1234 (fNH)" err
'

test_expect_success 'why they are as they are' '
	test "$(weir jobs -n -o "{contextual_info}" $(cat held))" = held &&
	test "$(weir jobs -n -o "{contextual_info}" $(cat bad))" = "Exit 3" &&
	test "$(weir jobs -n -o "{contextual_info}" $(cat killed))" = "Signaled: Killed" &&
	test "$(weir jobs -n -o "{contextual_info}" $(cat canceled))" = "Canceled: not needed" &&
	test "$(weir jobs -n -o "{contextual_info}" $(cat late))" = Timeout &&
	weir jobs -n -o "{inactive_reason}" $(cat never) | grep "alloc" &&
	test "$(weir jobs -n -o "{returncode}" $(cat good bad killed canceled) | xargs)" = "0 3 137 -128"
'

test_expect_success 'what never started has no start, and no run time of decades (A07)' '
	weir jobs --json $(cat never canceled) | jq -c ".jobs[] | [.t_run, .runtime, .status]" >out &&
	{ echo "[null,null,\"FAILED\"]"; echo "[null,null,\"CANCELED\"]"; } >expected &&
	test_cmp expected out
'

test_expect_success 'every part is counted once, the timeout too (A06)' '
	weir jobs --stats-only >out &&
	echo "1 running, 1 completed, 3 failed, 3 pending, 1 canceled, 1 timed out" >expected &&
	test_cmp expected out &&
	weir stats --json | jq -c "[.jobs | .successful, .failed, .canceled, .timeout, .job_states.inactive]" >out &&
	echo "[1,3,1,1,6]" >expected &&
	test_cmp expected out
'

test_expect_success 'JSON is one document with the same keys, whatever the count (A15)' '
	for jobs in "$(cat good),$(cat bad)" "$(cat good)"
	do
		weir info $jobs --json | jq -s length >count && test $(cat count) = 1 || return 1
	done &&
	weir jobs --json --name=nosuch | jq -c . >out &&
	queue="{\"name\":null,\"enabled\":true,\"started\":true,\"disable_reason\":null,\"stop_reason\":null,\"blocked\":null}" &&
	echo "{\"jobs\":[],\"errors\":[],\"stale\":null,\"queues\":[$queue]}" >expected && test_cmp expected out &&
	test_expect_code 2 weir info abc --json >out 2>err &&
	test "$(jq -s length out)" = 1 && test "$(jq -c "[.errors[0].id, .errors[0].text]" out)" = "[null,\"abc\"]" &&
	test_expect_code 1 weir jobs 1234 --json >out 2>err &&
	test "$(jq -c "[.errors[0].id, .errors[0].f58, .errors[0].text]" out)" = "[1234,\"ƒNH\",\"1234\"]" &&
	test "$(weir jobs --json $(cat good) | jq .jobs[0].reason)" = null &&
	weir jobs -a --json | jq -c ".jobs[] | keys" | sort -u >keys &&
	test_line_count = 1 keys
'

test_expect_success 'a name cannot act on the terminal, nor break a line' '
	weir submit --urgency=hold --job-name="$(printf "a\033[2J\nb")" true >id &&
	weir jobs -n $(cat id) >out &&
	test_line_count = 1 out &&
	grep -F "a\\x1b[2J\\nb" out &&
	weir cancel $(cat id)
'

test_expect_success 'the very next command shows what the one before did' '
	for number in 1 2 3 4 5 6 7 8 9 10
	do
		id=$(weir submit --urgency=hold true) &&
		test "$(weir jobs -n -o "{state} {urgency}" $id)" = "SCHED 0" &&
		weir job priority $id 3 &&
		test "$(weir jobs -n -o "{urgency}" $id)" = 3 &&
		weir cancel $id &&
		weir jobs -n -o "{status}" $id >status &&
		grep -x -e CANCELED -e CLEANUP status || return 1
	done
'

test_expect_success 'the instance down, the last list is shown, marked stale' '
	kill -STOP $WEIR_PID && test_when_finished "kill -CONT $WEIR_PID" &&
	manager=$(weir_daemon weir-job-manager) &&
	kill -KILL $manager &&
	weir jobs -n -o "{name}" >out 2>err &&
	test "$(xargs <out)" = "first waits held runs" &&
	test_line_count = 1 err && grep "stale" err &&
	weir jobs --json 2>/dev/null | jq ".stale >= 0" >stale && grep -x true stale &&
	test_expect_code 1 weir jobs --fresh 2>err && grep "weir start" err
'

test_expect_success 'and when it is back, it is fresh again' '
	weir jobs --fresh >out &&
	weir jobs --json | jq .stale >stale &&
	echo null >expected && test_cmp expected stale &&
	weir cancel --all --quiet &&
	weir queue drain -t 60s
'

test_expect_success 'a thousand are shown unless told otherwise, and that there are more is said' '
	weir submit --quiet --urgency=hold --bcc=1-1005 "--env=-*" true &&
	weir jobs -n >out 2>err &&
	test_line_count = 1000 out &&
	grep "only the first 1000" err &&
	weir jobs -n -c 0 >out 2>err &&
	test_line_count = 1005 out &&
	test_must_be_empty err &&
	weir cancel --all --quiet
'

weir_stop

test_done
