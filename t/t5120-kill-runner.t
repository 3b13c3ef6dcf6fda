#!/bin/sh

test_description='kill -9 of the job-runner while jobs run and wait: shepherds go on, and are found again'

. "$(dirname "$0")/sharness.sh"

WEIR_TEST_CORES=4
export WEIR_TEST_CORES

test_expect_success 'an instance of four cores' '
	weir_instance --runner-arg=--cores=0-3
'

test_expect_success 'running bodies keep their pids, nothing begins twice, no event is posted' '
	py survive weir-job-runner weir-job-runner
'

test_expect_success 'a job that ends while no runner is there ends with its own status' '
	py unattended
'

weir_stop

test_done
