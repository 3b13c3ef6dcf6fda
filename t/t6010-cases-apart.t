#!/bin/sh

test_description='Cases from real bug reports, by their number: with daemons started one by one, relays and stand-ins'

. "$(dirname "$0")/sharness.sh"

# apart CASE: in a folder of its own
apart () {
	mkdir $1 &&
	(cd $1 && py cases $1)
}

test_expect_success 'A03 a look-up right after submit waits for the journal and is never "unknown"; an id never given out is' '
	apart a03
'

test_expect_success 'A04 the job-manager goes away and comes back under a job-info: its last list, marked; a timer; nothing lost' '
	apart a04
'

test_expect_success 'A05 an entry that comes twice counts once' '
	apart a05
'

test_expect_success 'A11 a cursor that aged out goes on from the store; one that cannot be continued is refused and says why' '
	apart a11
'

test_done
