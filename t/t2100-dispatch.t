#!/bin/sh

test_description='parameterized jobs: they wait, others are dispatched from them, and nobody waits for them'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'a parent is one after any daemon was killed, and a key makes one child' '
	weir_instance --runner-arg=--cores=0-1 &&
	py dispatch restarts
'

test_expect_success 'what a dispatch must be like is told by name, and nobody makes a child by himself' '
	py dispatch refusals
'

test_expect_success 'nobody waits for a parent, and it ends when it is canceled' '
	py dispatch ends
'

test_expect_success 'a shutdown does not wait for one' '
	test "$(weir jobs -n -f depend | wc -l)" -gt 0 &&
	timeout 60 weir shutdown
'

weir_stop

test_done
