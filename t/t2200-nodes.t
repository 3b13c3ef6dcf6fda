#!/bin/sh

test_description='Nodes in the journal: killed, drained, and what becomes of jobs on them

Four node processes stand for four machines; kill -9 of one is a machine that is gone.'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of four nodes' '
	weir_instance -s 4 --runner-arg=--cores=0-1
'

test_expect_success 'two of four nodes die while a job runs on all: offline, unknown, lost, online, and the others go on' '
	mkdir killed &&
	(cd killed && py nodes killed)
'

test_expect_success 'a node dies, then the engine, then the job-manager: nothing is told twice, nothing begun again' '
	mkdir engine &&
	(cd engine && py nodes engine)
'

test_expect_success 'a common job fails with a node of it, whose part is lost' '
	mkdir common &&
	(cd common && py nodes common)
'

weir_stop

test_done
