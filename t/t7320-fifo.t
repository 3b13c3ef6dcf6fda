#!/bin/sh

test_description='A FIFO whose other end nobody opens: the job waits, obeys, keeps its time limit, and says what it waits for

Its shepherd once hung in open: no limit, no cancel, and its core was gone until the node process was killed.'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of one core' '
	weir_instance --runner-arg=--cores=0 &&
	mkfifo fifo
'

for option in --output --error --input
do
	test_expect_success "$option=FIFO and a time limit: timeout, with the name of the file and the remedy" '
		id=$(weir submit -t 0.3s $option=fifo true) &&
		test_expect_code 142 weir job status $id 2>err &&
		weir job eventlog $id >eventlog &&
		grep "resource allocation expired before the job could begin: .* fifo is a FIFO that nobody" eventlog &&
		grep "start its .* first, or name a plain file" eventlog
	'
done

test_expect_success 'a cancel ends the wait' '
	id=$(weir submit --output=fifo true) &&
	weir job wait-event $id start &&
	weir cancel $id &&
	weir job wait-event $id clean
'

test_expect_success 'when it is opened the job begins' '
	id=$(weir submit --output=fifo echo hello) &&
	weir job wait-event $id start &&
	read line <fifo &&
	test "$line" = hello &&
	weir job status $id
'

test_expect_success 'the core is free' '
	weir run true
'

weir_stop

test_done
