#!/bin/sh

test_description='weir cancel, job raise, job kill: what ends a job, and what it is called then'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of one core, and it is busy' '
	weir_instance --runner-arg=--cores=0 &&
	weir submit sleep 300 >busy &&
	weir job wait-event --quiet $(cat busy) start
'

# ended ID: how it ended
ended () {
	weir job wait-event --quiet $1 clean &&
	weir jobs -n -o "{result} {inactive_reason}" $1
}

test_expect_success 'a job that waits ends at once, and never ran' '
	id=$(weir submit true) &&
	weir cancel -m "changed my mind" $id &&
	test "$(ended $id)" = "CANCELED Canceled: changed my mind" &&
	weir job eventlog --json $id | jq -r .name | xargs >events &&
	echo submit validate depend priority exception clean >expected &&
	test_cmp expected events
'

test_expect_success 'a job that runs is told to go, and goes' '
	weir cancel $(cat busy) &&
	test "$(ended $(cat busy))" = "CANCELED Canceled" &&
	weir job eventlog --json $(cat busy) | jq "select(.name == \"finish\").context.status" >status &&
	echo 36608 >expected &&
	test_cmp expected status
'

test_expect_success 'one that does not go is killed' '
	weir_stop && rm -rf state && weir_instance --runner-arg=--cores=0 --runner-arg=--kill-grace=0.2 &&
	id=$(weir submit sh -c "trap \"\" TERM; echo up; while :; do sleep 100; done") &&
	weir job wait-event --quiet -p output $id data &&
	weir cancel $id &&
	test "$(ended $id)" = "CANCELED Canceled"
'

test_expect_success 'all processes of a job go with it' '
	mkfifo children &&
	id=$(weir submit sh -c "sleep 300 & echo \$! >children; setsid sleep 300 & echo \$! >children; wait") &&
	exec 5<>children && read -r first <&5 && read -r second <&5 && exec 5<&- &&
	weir cancel $id &&
	test "$(ended $id)" = "CANCELED Canceled" &&
	! kill -0 $first 2>/dev/null && ! kill -0 $second 2>/dev/null
'

test_expect_success 'several at once; those that cannot be are named, the others are' '
	weir submit --urgency=hold --bcc=1-3 true >ids &&
	test_expect_code 1 weir cancel $(cat ids) 1234 2>err &&
	test_line_count = 1 err && grep "no such job 1234 (fNH)" err &&
	weir jobs -n -o "{result}" - <ids >canceled &&
	test "$(sort -u canceled)" = CANCELED && test_line_count = 3 canceled
'

test_expect_success 'all, or all of some state' '
	weir submit --quiet --urgency=hold --bcc=1-3 true &&
	weir submit sleep 300 >runs &&
	weir job wait-event --quiet $(cat runs) start &&
	weir cancel --all --states=pending --dry-run >out &&
	echo "3 jobs would be canceled" >expected && test_cmp expected out &&
	weir cancel --all --states=pending >out &&
	echo "3 jobs canceled" >expected && test_cmp expected out &&
	test "$(weir jobs -n -o "{id}")" = $(cat runs) &&
	weir cancel --all >out &&
	echo "1 job canceled" >expected && test_cmp expected out &&
	weir queue drain -t 30s
'

test_expect_success 'an exception that is not fatal is noted and changes nothing' '
	mkfifo hold &&
	id=$(weir submit sh -c "cat hold") &&
	weir job wait-event --quiet $id start &&
	weir job raise -s 3 -t disk -m "nearly full" $id &&
	weir job wait-event -m type=disk $id exception >event &&
	grep "severity=3" event && grep "nearly full" event &&
	echo >hold &&
	weir wait $id
'

test_expect_success 'a signal reaches the job, and it may think about it' '
	id=$(weir submit sh -c "trap \"echo caught\" USR1; echo up; while :; do sleep 0.05; done") &&
	weir job wait-event --quiet -p output $id data &&
	weir job kill -s USR1 $id &&
	weir job wait-event --quiet -p output -c 2 $id data &&
	weir job kill -s KILL $id &&
	test_expect_code 137 weir job attach $id >out 2>err &&
	printf "up\ncaught\n" >expected &&
	test_cmp expected out
'

test_expect_success 'a job that does not run takes no signal' '
	id=$(weir submit --urgency=hold true) &&
	weir_fails 1 "$id" "not running" -- weir job kill $id &&
	weir cancel $id
'

weir_stop

test_done
