#!/bin/sh

test_description='A random storm: the listings, a fold of the journal and folds of the store are equal, element by element'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of six cores' '
	weir_instance --runner-arg=--cores=0-5
'

test_expect_success 'a storm, and at every quiet point all four tell the same' '
	py storm "$WEIR_STORM_SEED" >storm.out 2>&1 || {
		cat storm.out
		sed "s/^/# /" storm.out >&5
		false
	}
'
sed -n '1s/^/# /p' storm.out

test_expect_success 'after kill -9 of all three daemons they still do' '
	py daemons kill9 weir-job-info &&
	py daemons kill9 weir-job-manager &&
	py daemons kill9 weir-job-runner &&
	py daemons wait weir-job-info &&
	py survive
'

weir_stop

test_done
