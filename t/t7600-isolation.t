#!/bin/sh

test_description='Promise "isolated": who stops reading, leaves at once, or asks without end costs the others nothing, and the daemons a bounded amount'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance whose ring holds 1,000 events, with pending jobs' '
	weir_instance --manager-arg=--journal-size-limit=1000 --runner-arg=--cores=0-1 &&
	weir queue stop &&
	py slow fill 5000
'

test_expect_success 'A12 a tap stopped for 5,000 events has every one in order; the other was never more than 1 s behind' '
	py isolation a12 5000
'

test_expect_success 'promise_isolated: listeners, listings and job-info stopped at once; submits, changes and the journal go on' '
	py isolation crowd 20 20
'

test_expect_success 'promise_isolated: a client that asks job-info without end is refused alone, and others are served in between' '
	py isolation flood job-list.list "{\"max_entries\":1000,\"attrs\":[\"all\"],\"since\":0.0}"
'

test_expect_success 'promise_isolated: a client that asks the job-manager without end neither' '
	py isolation flood job-manager.list "{\"max_entries\":1000}" &&
	py isolation flood job-manager.lookup "{\"id\":1,\"keys\":[]}"
'

test_expect_success 'A16 200 clients leave before they are answered, 20 of them in the middle: same daemons, descriptors as before, jobs end normally' '
	weir cancel --all &&
	weir queue start &&
	py isolation a16 200 20
'

weir_stop

test_done
