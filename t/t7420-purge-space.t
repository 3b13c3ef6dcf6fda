#!/bin/sh

test_description='a purge gives the space back: of the archive at once, of the log as its floor rises'

. "$(dirname "$0")/sharness.sh"

# kib FILE…: what they take up on the disk
kib () {
	du -sk "$@" | awk "{ sum += \$1 } END { print sum }"
}

# shrinks_to PART: the state directory comes to take less than 1/PART of what it took before, within 60 seconds
shrinks_to () {
	shrinks_end=$(($(date +%s) + 60))
	until test $(($(kib state) * $1)) -lt $before
	do
		if test $(date +%s) -ge $shrinks_end
		then
			say "before $before KiB, now"
			ls -ls state
			return 1
		fi
		weir stats >/dev/null || return 1
	done
}

test_expect_success '20,000 jobs with environments, ended' '
	weir_instance --runner-arg=--cores=0-1 --manager-arg=--log-entries-limit=10000 &&
	weir submit --urgency=hold --cc=1-20000 true >ids &&
	weir cancel --all --quiet &&
	test "$(weir stats --json | jq ".\"job-manager\".inactive_jobs")" = 20000 &&
	before=$(kib state) &&
	say "$before KiB with 20,000 jobs"
'

test_expect_success 'they are purged, and the files become short' '
	weir job purge --all --force >out &&
	echo "purged 20000 jobs; no ended jobs are left" >expected &&
	test_cmp expected out &&
	shrinks_to 3 &&
	say "$(kib state) KiB without them"
'

test_expect_success 'and stay so over a restart, with everything in order' '
	kill -KILL $(weir_daemon weir-job-manager) &&
	weir submit true >one && weir wait $(cat one) &&
	shrinks_to 3 &&
	test "$(weir jobs --fresh -a -c 0 -n | wc -l)" = 1 &&
	test "$(weir job last)" = "$(cat one)" &&
	weir store check --statedir=state --json >check &&
	jq -e ".sound and .jobs == 1 and .seq - .floor < 12000" check
'

weir_stop

test_done
