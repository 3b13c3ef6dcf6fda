#!/bin/sh

test_description='The engine obeys the job-manager only

A program with the owner'\''s rights once could tell it to free what runs, or to start what nobody submitted.'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance with a job that runs' '
	weir_instance --runner-arg=--cores=0 &&
	mkfifo began go &&
	id=$(weir submit sh -c "echo x >began; read line <go; exit 3") &&
	read line <began &&
	weir job id --to=dec $id >dec
'

test_expect_success 'every request of a client that would change something is refused, and says why' '
	cat >ask.py <<-\EOF &&
	import sys
	import wire
	job = int(sys.argv[1])
	client = wire.Client()
	start = {"id": job + 1, "userid": 0, "jobspec": {}, "R": {}, "reattach": False}
	for topic, payload in [
	    ("sched.free", {"id": job, "R": {}, "final": True}),
	    ("sched.alloc", {"id": job + 1, "priority": 16, "userid": 0, "t_submit": 1.0, "jobspec": {}}),
	    ("sched.cancel", {"id": job}),
	    ("sched.prioritize", {"jobs": [[job, 31]]}),
	    ("sched.expiration", {"id": job, "expiration": 1.0}),
	    ("job-exec.start", start),
	    ("job-exec.kill", {"id": job, "signum": 9}),
	    ("job-exec.cancel", {"id": job, "type": "cancel"}),
	    ("job-exec.expiration", {"id": job, "expiration": 1.0}),
	]:
	    try:
	        client.call(topic, payload)
	    except wire.Refused as refused:
	        assert refused.errnum == 1 and topic in str(refused) and "job-manager" in str(refused), refused
	    else:
	        sys.exit(f"{topic} was obeyed")
	for topic in ("sched.stats-get", "job-exec.stats-get", "sched.resource-status", "resource.status", "sched.ping"):
	    client.call(topic, {})
	EOF
	PYTHONPATH="$LIB" python3 ask.py $(cat dec)
'

test_expect_success 'the job ends as it would have, and its core is free again' '
	echo y >go &&
	test_expect_code 3 weir job status $id &&
	weir run true
'

weir_stop

test_done
