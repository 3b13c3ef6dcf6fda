#!/bin/sh

test_description='Published clients of the HTTP interface: python-nomad, nomadpy, nomadtools, and what they send on the wire'

. "$(dirname "$0")/sharness.sh"

# Made by .ci/clients, which `make deps` runs.
clients="$SHARNESS_TEST_SRCDIR/../target/clients-venv/bin/python"
if ! test -x "$clients"
then
	skip_all='the clients are not installed: make deps'
	test_done
fi

clients () {
	PYTHONPATH="$LIB" "$clients" "$LIB/clients.py" "$@"
}

test_expect_success 'an instance of two nodes' '
	weir_instance -s 2
'

test_expect_success 'three jobs, one a child of another, with and without children' '
	clients example
'

test_expect_success 'python-nomad: every call for what weir serves' '
	clients python-nomad
'

test_expect_success 'nomadpy: every call for what weir serves, every field of its type' '
	clients nomadpy
'

test_expect_success 'request lines as clients send them' '
	clients lines
'

test_expect_success 'events: both clients, every index goes on where it was or is refused' '
	clients events
'

test_expect_success 'nomadtools: a job is followed to its end, and its status is that of the job' '
	clients tools
'

weir_stop

test_done
