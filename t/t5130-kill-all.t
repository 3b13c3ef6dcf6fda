#!/bin/sh

test_description='kill -9 of job-manager, job-info and job-runner in turn, again and again, while jobs run, wait and come'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of two cores' '
	weir_instance --runner-arg=--cores=0-1
'

test_expect_success 'one after another with jobs running and waiting: all as before' '
	py survive weir-job-manager weir-job-info weir-job-runner
'

test_expect_success 'promise: durable: in a loop under load: no acknowledged job is missing, no body ran twice, every status is right' '
	py rounds ${WEIR_KILL_ROUNDS:-4}
'

test_expect_success 'any process at any time, node and shepherds too: what is lost says so, and nothing begins twice' '
	weir_stop &&
	mkdir harsh &&
	cd harsh &&
	weir_instance --runner-arg=--cores=0-1 &&
	py rounds harsh ${WEIR_KILL_COUNT:-25}
'

weir_stop

test_done
