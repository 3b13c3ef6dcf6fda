#!/bin/sh

test_description='kill -9 of job-info while jobs run and wait: the job-manager notices a listener less, no more'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of two cores' '
	weir_instance --runner-arg=--cores=0-1
'

test_expect_success 'after each restart the listings are as before, and nobody else was disturbed' '
	py survive weir-job-info weir-job-info
'

test_expect_success 'callers of a job-info that dies get an error at once, not never' '
	py orphans weir-job-info
'

weir_stop

test_done
