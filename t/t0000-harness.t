#!/bin/sh

test_description='The harness: an instance of its own for each test, ready when it says so, gone when it is stopped'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'the programs tested are those of this tree' '
	test "$(command -v weir)" = "$WEIR_BIN/weir"
'

test_expect_success 'no instance of anybody else is met' '
	weir_fails 1 "$HOME/.local/state/weir/socket" -- weir jobs
'

test_expect_success 'an instance starts here and is ready at once' '
	weir_instance &&
	test -S state/socket &&
	weir ping -c 1 job-manager &&
	weir ping -c 1 job-list &&
	weir ping -c 1 sched &&
	weir jobs
'

test_expect_success 'its daemons are children of weir start' '
	for name in weir-job-manager weir-job-info weir-job-runner
	do
		weir_daemon $name >pid && kill -0 $(cat pid) || return 1
	done
'

test_expect_success 'its state is nobody else'\''s to read' '
	test "$(stat -c %a state/key)" = 600 &&
	test "$(stat -c %a state)" = 700
'

test_expect_success 'another one runs beside it' '
	mkdir other &&
	(
		cd other &&
		first=$WEIR_URI &&
		weir_instance &&
		test "$WEIR_URI" != "$first" &&
		weir submit true &&
		weir jobs -a -n -o "{id}" >jobs &&
		test_line_count = 1 jobs &&
		weir_stop
	) &&
	weir jobs -a -n >jobs &&
	test_must_be_empty jobs
'

test_expect_success 'stopped, it is gone: processes, socket, and its status is 0' '
	weir_daemon weir-job-runner >runner &&
	weir_stop &&
	! kill -0 $(cat runner) 2>/dev/null &&
	test ! -e state/socket &&
	weir_fails 1 "weir start" -- weir ping -c 1
'

test_expect_success 'a private instance is there for its command, and its directory is gone afterwards' '
	mkdir tmp &&
	TMPDIR=$PWD/tmp weir start sh -c "weir run echo hello; echo \$WEIR_URI >uri; weir submit sleep 300 >/dev/null; exit 7" >out
	test $? = 7 &&
	echo hello >expected &&
	test_cmp expected out &&
	grep -q "^local://$PWD/tmp/weir-" uri &&
	rmdir tmp
'

test_expect_success 'jobs of a private instance do not outlive it' '
	mkdir tmp &&
	cat >command <<-\EOF &&
	mkfifo up &&
	weir submit --quiet sh -c "echo \$\$ >up; exec sleep 300" &&
	cat up >body
	EOF
	TMPDIR=$PWD/tmp weir start sh command &&
	test -s body &&
	! kill -0 $(cat body) 2>/dev/null
'

test_done
