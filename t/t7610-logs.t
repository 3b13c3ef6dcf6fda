#!/bin/sh

test_description='Logs are bounded: what clients say, and the files of the daemons, whoever writes how much'

. "$(dirname "$0")/sharness.sh"

LIMIT=20000

# The bytes of all files of one daemon's log.
log_bytes () {
	cat state/log/$1.log* | wc -c
}

test_expect_success 'an instance with short logs' '
	WEIR_LOG_LIMIT=$LIMIT && export WEIR_LOG_LIMIT &&
	WEIR_LOG=debug && export WEIR_LOG &&
	weir_instance -s 2
'

test_expect_success 'a client that floods log.append is told, and what it said is bounded' '
	py isolation append 4 1000 >out &&
	read accepted refused <out &&
	test $accepted -ge 100 && test $accepted -le 300 &&
	test $((accepted + refused)) = 4000
'

test_expect_success 'the log says whose lines were dropped, how many and how long they were' '
	wire_until () { py isolation dropped state/log $1; } &&
	wire_until $refused
'

test_expect_success 'the files of each daemon stay below the limit, however much is said' '
	py isolation connections 2000 &&
	for daemon in job-manager job-info job-runner
	do
		test $(log_bytes $daemon) -le $((5 * LIMIT)) || return 1
	done &&
	test -f state/log/job-manager.log.3 &&
	! test -e state/log/job-manager.log.4
'

test_expect_success 'the newest lines are in the file that has the name' '
	weir_stop &&
	for number in 3 2 1
	do
		tail -n 1 state/log/job-manager.log.$number | cut -d" " -f1 || return 1
	done >times &&
	tail -n 1 state/log/job-manager.log | cut -d" " -f1 >>times &&
	sort -c times
'

test_done
