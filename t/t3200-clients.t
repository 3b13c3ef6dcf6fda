#!/bin/sh

test_description='The status of a job on each node: the socket, weir job clients, the summary and the statuses of HTTP say the same'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of four nodes' '
	weir_instance -s 4
'

test_expect_success 'two of them are killed while a job runs on all, and come back' '
	py client_status killed
'

test_expect_success 'a job that waits for drained nodes says so, and where it ended how' '
	py client_status drained
'

weir_stop

test_done
