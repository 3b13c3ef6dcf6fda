#!/bin/sh

test_description='The live page in a browser: a token in the address, a first page, what changes, names as text'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'a browser sees the jobs, and what becomes of them' '
	weir_instance --runner-arg=--cores=0-1 &&
	LC_ALL=C timeout 100 python3 "$LIB/eventsource.py" "$PWD/state" $(weir_daemon weir-job-info) >said &&
	cat >expected <<-\EOF &&
	ok page
	ok change
	ok children
	ok eventsource
	ok path
	ok restart
	ok elsewhere
	EOF
	test_cmp expected said
'

test_expect_success 'the page asks nobody else and runs nothing else' '
	curl -si "http://$(cat state/http)/" >page &&
	grep -i "^content-security-policy: default-src .none.; script-src .self.; style-src .self.; connect-src .self.;" page &&
	! grep -e "http:" -e "https:" -e "<script>" -e "style=" page &&
	weir_stop
'

test_done
