#!/bin/sh

test_description='The job-manager is killed while the word of an engine is on its way: nothing runs twice, no slot is lost'

. "$(dirname "$0")/sharness.sh"

for word in alloc start finish
do
	test_expect_success "the runner said $word, and the job-manager died before it was stored" '
		mkdir $word &&
		(cd $word && py claims relay $word)
	'
done

test_expect_success 'a stand-in engine is told each time exactly what is owed' '
	mkdir engine &&
	(cd engine && py claims engine)
'

test_done
