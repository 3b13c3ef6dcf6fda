#!/bin/sh

test_description='weir start keeps its daemons running, says what it does, and lets nobody wait for ever'

. "$(dirname "$0")/sharness.sh"

# kill_again NAME TIMES: kills the daemon, and each of its successors as soon as there is one.
kill_again () {
	killed=
	for at in $(seq $2)
	do
		pid=$killed
		while test "$pid" = "$killed"
		do
			kill -0 $WEIR_PID && ! grep -q "State:.Z" /proc/$WEIR_PID/status || return 1
			pid=$(weir_daemon $1) || pid=$killed
		done
		kill -KILL $pid
		killed=$pid
	done
}

for name in job-manager job-info job-runner
do
	test_expect_success "fault: weir-$name killed five times in a row: it is said, its log is named, and the instance goes on" '
		weir_instance &&
		test_when_finished weir_stop &&
		kill_again weir-$name 5 &&
		py daemons wait weir-$name &&
		test $(grep -c "weir-$name was ended by signal 9 (Killed), starting it again in" start.err) = 5 &&
		grep "ended 5 times in .*; its log is $PWD/state/log/$name.log" start.err &&
		weir run echo well >output &&
		echo well >expected &&
		test_cmp expected output
	'
done

test_expect_success 'fault: a job-manager killed while the instance starts is started again, too' '
	mkfifo said &&
	{ timeout 60 head -n 1 said >first & } &&
	head=$! &&
	{ weir start --statedir="$PWD/state" >said 2>start.err & } &&
	WEIR_PID=$! &&
	echo $WEIR_PID >>instances &&
	kill_again weir-job-manager 2 &&
	wait $head &&
	grep ready first &&
	weir_stop &&
	test $(grep -c "weir-job-manager was ended by signal 9" start.err) = 2
'

test_expect_success 'fault: the next start on the directory of a supervisor that was killed is not refused' '
	for at in 1 2 3 4 5
	do
		weir_instance || return 1
		kill -KILL $WEIR_PID
		wait $WEIR_PID || :
	done &&
	weir_instance &&
	weir_stop
'

test_expect_success 'nor is one that comes while the one before is stopping' '
	weir_instance &&
	kill -TERM $WEIR_PID &&
	weir_instance &&
	weir_stop
'

test_expect_success 'a job-manager that does not end with its supervisor is named, and what to do' '
	: >manager.log &&
	{ weir-job-manager --statedir="$PWD/state" --stop-with-parent 2>>manager.log & } &&
	manager=$! &&
	test_when_finished "kill -KILL $manager 2>/dev/null; :" &&
	timeout 60 tail --pid=$manager -n +1 -f manager.log | grep -q -m 1 "ready socket=" &&
	WEIR_URI=local://$PWD/state/socket weir ping -c 1 job-manager &&
	test_expect_code 1 weir start --statedir="$PWD/state" 2>refused &&
	grep "waiting for weir-job-manager, process $manager" refused &&
	grep "in use by process $manager .*kill -KILL $manager" refused &&
	kill -KILL $manager &&
	weir_instance &&
	weir_stop
'

test_expect_success 'SIGTERM ends the instance with every daemon stopped, and the jobs live' '
	weir_instance --keep-jobs &&
	mkfifo go &&
	id=$(weir submit --cwd="$PWD" sh -c "read line <go; exit 3") &&
	weir job wait-event --timeout=60 $id start &&
	for name in weir-job-manager weir-job-info weir-job-runner
	do
		kill -STOP $(weir_daemon $name) || return 1
	done &&
	kill -TERM $WEIR_PID &&
	timeout 20 tail --pid=$WEIR_PID -f /dev/null &&
	weir_stop &&
	weir_instance &&
	echo >go &&
	test_expect_code 3 weir job status $id &&
	weir_stop
'

test_expect_success 'two supervisors that start at the same time: one keeps the directory, the other says whose it is' '
	for at in 1 2 3
	do
		mkdir both.$at && mkfifo one.$at two.$at &&
		{ weir start --statedir="$PWD/both.$at" >one.$at 2>one.$at.err & } &&
		one=$! &&
		{ weir start --statedir="$PWD/both.$at" >two.$at 2>two.$at.err & } &&
		two=$! &&
		echo $one >>instances && echo $two >>instances &&
		{ timeout 60 head -n 1 one.$at >one.said & } &&
		timeout 60 head -n 1 two.$at >two.said &&
		wait $! &&
		cat one.said two.said >said.$at &&
		test_line_count = 1 said.$at &&
		cat one.$at.err two.$at.err >err.$at &&
		test_line_count = 1 err.$at &&
		grep -E "in use by .*(process $one|process $two)" err.$at || return 1
		kill $one $two 2>/dev/null
		wait $one
		wait $two
		grep ready said.$at || return 1
	done
'

test_done
