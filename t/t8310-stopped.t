#!/bin/sh

test_description='A stopped listener costs the job-manager little memory, the others nothing, and itself no event

WEIR_CHAOS_EVENTS says for how many events it is stopped; make soak-chaos takes 500,000, with the ring at its default of 65,536.'

. "$(dirname "$0")/sharness.sh"

EVENTS=${WEIR_CHAOS_EVENTS:-20000}
if test $EVENTS -ge 200000; then RING=65536; else RING=5000; fi

test_expect_success "promise: isolated: a listener stopped for $EVENTS events, and the same without one" '
	py stopped $EVENTS $RING
'

test_done
