#!/bin/sh

test_description='weir run and attach: the job as if it ran here'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of two cores' '
	weir_instance --runner-arg=--cores=0-1
'

test_expect_success 'output and errors go where they belong' '
	weir run sh -c "echo out; echo err >&2" >out 2>err &&
	echo out >expected && test_cmp expected out &&
	echo err >expected && test_cmp expected err
'

test_expect_success 'the exit status is the job'\''s, and a line says what it was' '
	weir run true &&
	test_expect_code 3 weir run sh -c "exit 3" 2>err &&
	grep "exited with exit code 3" err &&
	test_expect_code 255 weir run sh -c "exit 255" &&
	test_expect_code 137 weir run sh -c "kill -9 \$\$" 2>err &&
	grep "killed by signal 9 (Killed)" err &&
	test_expect_code 127 weir run nosuch-command 2>err &&
	grep "nosuch-command" err
'

test_expect_success 'standard input goes to the job, and its end' '
	printf "one\ntwo\n" | weir run sort -r >out &&
	printf "two\none\n" >expected &&
	test_cmp expected out &&
	weir run cat </dev/null >out &&
	test_must_be_empty out
'

test_expect_success 'bytes come through as they are, also many' '
	head -c 300000 /dev/urandom >bytes &&
	weir run cat <bytes >out &&
	cmp bytes out &&
	weir run head -c 2000000 /dev/zero | wc -c >count &&
	echo 2000000 >expected &&
	test_cmp expected count
'

test_expect_success 'a job that reads no more: nothing is said about the input that is left' '
	yes | weir run head -n 1 >out 2>err &&
	echo y >expected && test_cmp expected out &&
	test_must_be_empty err &&
	yes | weir run true 2>err &&
	test_must_be_empty err
'

test_expect_success 'output comes while the job runs' '
	mkfifo hold live &&
	{ weir run sh -c "echo first; cat hold >/dev/null; echo second" >live & } &&
	run=$! &&
	exec 7<live &&
	read -r line <&7 && test "$line" = first &&
	echo >hold &&
	read -r line <&7 && test "$line" = second &&
	wait $run &&
	exec 7<&-
'

test_expect_success 'here and there are the same place' '
	mkdir place &&
	(cd place && weir run sh -c "pwd; echo \$HERE" >../out) &&
	pwd >expected && sed -i "s,\$,/place," expected && echo >>expected &&
	test_cmp expected out &&
	(umask 027 && HERE=value weir run sh -c "echo \$HERE; umask") >out &&
	grep -x value out
'

test_expect_success 'several tasks, each labelled when asked' '
	weir run -n2 -l sh -c "echo task \$WEIR_TASK_RANK" | sort >out &&
	printf "0: task 0\n1: task 1\n" >expected &&
	test_cmp expected out
'

test_expect_success 'files for input, output and errors' '
	echo content >in &&
	weir run --input=in --output=o --error=e sh -c "cat; echo bad >&2" 2>err &&
	test_cmp in o &&
	echo bad >expected && test_cmp expected e
'

test_expect_success 'a job that cannot run is status 1 with the reason' '
	test_expect_code 1 weir run -n 4096 true 2>err &&
	grep "exception alloc" err
'

test_expect_success 'the time limit ends it' '
	test_expect_code 142 weir run -t 0.1s sleep 60 2>err &&
	grep "exception timeout" err &&
	test "$(weir jobs -n -o "{result}" $(weir job last))" = TIMEOUT
'

test_expect_success 'a reader that goes away: the job goes on' '
	{ weir run sh -c "while echo line; do sleep 0.01; done" 2>err; echo $? >status; } | head -n 1 >out &&
	echo line >expected && test_cmp expected out &&
	echo 141 >expected && test_cmp expected status &&
	grep "the job goes on" err &&
	test "$(weir jobs -n -o "{state}" $(weir job last))" = RUN &&
	weir cancel $(weir job last)
'

command -v script >/dev/null && test_set_prereq TERMINAL

test_expect_success TERMINAL 'at a terminal a job that waits says for what, once' '
	weir queue stop --quiet -m "new disk" &&
	mkfifo tty &&
	{ script -q -e -c "weir run echo ran" /dev/null </dev/null >tty & } &&
	run=$! &&
	exec 7<tty &&
	read -r line <&7 &&
	case $line in *"waiting for the queue to be started (stopped: new disk)"*) ;; *) echo "$line"; false ;; esac &&
	weir queue start --quiet &&
	read -r line <&7 &&
	test "$(echo "$line" | tr -d "\r")" = ran &&
	wait $run &&
	exec 7<&-
'

test_expect_success 'attach: what it said and its status, afterwards too' '
	id=$(weir submit sh -c "echo said; exit 4") &&
	test_expect_code 4 weir job attach $id >out 2>err &&
	echo said >expected && test_cmp expected out &&
	test_expect_code 4 weir job attach --quiet $id >out 2>err &&
	test_cmp expected out && test_must_be_empty err
'

test_expect_success 'attach while it runs, from the start' '
	id=$(weir submit sh -c "echo started; cat hold >/dev/null; echo over") &&
	weir job wait-event --quiet -p output $id data &&
	{ weir job attach --read-only $id >live & } &&
	attach=$! &&
	exec 7<live &&
	read -r line <&7 && test "$line" = started &&
	echo >hold &&
	read -r line <&7 && test "$line" = over &&
	wait $attach &&
	exec 7<&-
'

test_expect_success 'ctrl-C asks first; a second one cancels' '
	mkfifo says &&
	{ exec weir run sleep 60 2>says & } &&
	run=$! &&
	exec 7<says &&
	weir journal --from=active --allow=start --count=1 >/dev/null &&
	kill -INT $run &&
	read -r line <&7 && case $line in *"press ctrl-C again"*) ;; *) false ;; esac &&
	kill -INT $run &&
	read -r line <&7 && case $line in *canceling*) ;; *) false ;; esac &&
	wait $run
	test $? = 143 &&
	test "$(weir jobs -n -o "{result}" $(weir job last))" = CANCELED &&
	exec 7<&-
'

test_expect_success 'a restart of the job-manager: output without gap or repeat, and the status' '
	{ weir run sh -c "echo before; cat hold >/dev/null; echo after; exit 5" >live 2>err & } &&
	run=$! &&
	exec 7<live &&
	read -r line <&7 && test "$line" = before &&
	kill -KILL $(weir_daemon weir-job-manager) &&
	weir jobs --fresh >/dev/null &&
	echo >hold &&
	read -r line <&7 && test "$line" = after &&
	wait $run
	test $? = 5 &&
	grep "trying again" err &&
	exec 7<&-
'

weir_stop

test_done
