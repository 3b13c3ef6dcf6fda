#!/bin/sh

test_description='What a job was dispatched with reaches its tasks'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'meta values are in the environment, the payload is standard input' '
	weir_instance &&
	py nodes dispatched
'

weir_stop

test_done
