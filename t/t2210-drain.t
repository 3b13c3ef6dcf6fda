#!/bin/sh

test_description='A drained node gets no new jobs, whatever is restarted, until it is undrained'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of four nodes' '
	weir_instance -s 4 --runner-arg=--cores=0
'

test_expect_success 'drained nodes are given to nobody, over restarts of engine and job-manager; then they are' '
	py nodes drain
'

weir_stop

test_done
