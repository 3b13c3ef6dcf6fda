#!/bin/sh

test_description='Case A15: JSON is one document, whatever was asked for'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance with two jobs' '
	weir_instance &&
	one=$(weir submit --urgency=hold true) &&
	two=$(weir submit --urgency=hold true)
'

# document STATUS JOBS ERRORS WORDS: weir info WORDS --json has that status, is one document, and has arrays of so many jobs and errors
document () {
	test_expect_code $1 weir info "$4" --json >out 2>err &&
	test "$(jq -s length out)" = 1 &&
	test "$(jq -c "[(.jobs, .errors) | type]" out)" = "[\"array\",\"array\"]" &&
	test "$(jq -c "[(.jobs, .errors) | length]" out)" = "[$2,$3]"
}

test_expect_success 'A15 two ids, one id: jq -s length is 1, an array inside whatever the count' '
	test "$(weir info $one,$two --json | jq -s length)" = 1 &&
	document 0 2 0 $one,$two &&
	document 0 1 0 $one
'

test_expect_success 'A15 an id that no job has: the same document, empty, with an error object that names it' '
	document 1 0 1 4711 &&
	test "$(jq -r ".errors[0] | [.id, .text] | @csv" out)" = "4711,\"4711\"" &&
	test_line_count = 1 err
'

test_expect_success 'A15 a bad id: a JSON error object and non-zero exit, also beside a good one' '
	document 2 0 1 0xyz &&
	jq -e ".errors[0] | .id == null and .text == \"0xyz\" and (.error | length) > 0" out &&
	document 2 1 1 $one,0xyz
'

test_expect_success 'A15 the same of weir jobs, when nothing matches too' '
	for words in "$one $two" $one "-f running" "4711" "0xyz"
	do
		weir jobs --json $words >out 2>err
		test "$(jq -s length out)" = 1 && test "$(jq -r ".jobs | type" out)" = array || return 1
	done
'

weir_stop

test_done
