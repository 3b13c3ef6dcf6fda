#!/bin/sh

test_description='kill -9 of the job-manager while jobs run and wait: nothing is lost, nothing happens twice'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of two cores' '
	weir_instance --runner-arg=--cores=0-1
'

test_expect_success 'invariant 1: a restart posts no event; order, rows, running bodies and slots are as before' '
	py survive weir-job-manager weir-job-manager
'

test_expect_success 'invariant 2: every id that was told is there after a kill in the middle of submissions' '
	py acknowledged 3
'

test_expect_success 'promise: resumable: a journal client resumes by its cursor over the restart, without a repeat or a hole' '
	py acknowledged resume
'

weir_stop

test_done
