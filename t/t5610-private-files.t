#!/bin/sh

test_description='what is in a state directory is its owner'\''s

A directory that guests may enter to reach the socket once let them read the store and the output of jobs.'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'store and jobs are private, whatever the umask' '
	umask 022 &&
	weir_instance &&
	weir run true &&
	stat -c "%a %n" state/store.sqlite* state/key state/jobs >modes &&
	sed -n "s/ .*store.*//p" modes | sort -u >store &&
	echo 600 >expected &&
	test_cmp expected store &&
	grep "^600 state/key$" modes &&
	grep "^700 state/jobs$" modes
'

weir_stop
test_done
