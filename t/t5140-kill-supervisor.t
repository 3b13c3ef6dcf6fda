#!/bin/sh

test_description='kill -9 of the supervisor

The daemons stop with it, jobs go on, and the next one starts on the same directory.'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'a job runs' '
	weir_instance --keep-jobs &&
	mkfifo go &&
	id=$(weir submit --cwd="$PWD" sh -c "echo begun >>bodies; read line <go; echo \$line") &&
	weir job wait-event --timeout=60 $id start
'

test_expect_success 'daemons stop with their supervisor' '
	daemons=$(for name in weir-job-manager weir-job-info weir-job-runner; do weir_daemon $name; done) &&
	test $(echo $daemons | wc -w) = 3 &&
	kill -KILL $WEIR_PID &&
	for pid in $daemons; do timeout 60 tail --pid=$pid -f /dev/null || return 1; done &&
	! { wait $WEIR_PID; } &&
	sed -i "/^$WEIR_PID\$/d" instances
'

test_expect_success 'the next one starts on the same directory and finds the job' '
	weir_instance --keep-jobs &&
	weir jobs -no "{id.f58plain} {status_abbrev}" >listed &&
	weir job wait-event --timeout=60 $id start &&
	echo finished >go &&
	weir job wait-event --timeout=60 $id clean &&
	echo finished >expected &&
	weir job attach $id >output &&
	test_cmp expected output &&
	echo begun >expected &&
	test_cmp expected bodies
'

test_expect_success 'a job that reads its input sees the end of it' '
	id=$(weir submit cat) &&
	weir job wait-event --timeout=60 $id clean
'

weir_stop
test_done
