#!/bin/sh

test_description='Bytes held, cut and swallowed at random points between the job-manager and everyone else

WEIR_CHAOS_LINKS says how often (make soak-chaos: more often), WEIR_LINKS_SEED repeats a run.'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'promise: resumable: over links that hold, break and lose bytes, what weir journal prints is the journal' '
	py links ${WEIR_CHAOS_LINKS:-25} $WEIR_LINKS_SEED
'

test_done
