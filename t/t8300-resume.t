#!/bin/sh

test_description='kill -9 of each daemon under load, and of readers: what weir journal printed, joined, is the journal

WEIR_CHAOS_ROUNDS and WEIR_CHAOS_RESUMES say how often; make soak-chaos takes 50 of each.'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of two cores' '
	weir_instance --runner-arg=--cores=0-1
'

test_expect_success 'promise: resumable: a reader that is killed again and again goes on behind its last line' '
	py resume reader ${WEIR_CHAOS_RESUMES:-8}
'

test_expect_success 'promise: durable: each daemon is killed under load, and readers live through it: joined output is the journal, entry by entry' '
	py resume daemons ${WEIR_CHAOS_ROUNDS:-2}
'

weir_stop

test_done
