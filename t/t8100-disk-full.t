#!/bin/sh

test_description='A state file system of 5 MiB that fills up

Submits are refused with the reason, reads are answered, and everything that was acknowledged is there after space returns and after a
restart; jobs that ended while there was no space end with their own status.'

. "$(dirname "$0")/sharness.sh"

# apart WORDS: disk_full.py in namespaces of its own, so that nothing stays mounted and nothing runs on, whatever happens
apart () {
	unshare --mount --pid --fork --mount-proc --kill-child env PYTHONPATH="$LIB" python3 "$LIB/disk_full.py" "$@"
}

if mkdir try && (cd try && apart try) >/dev/null 2>&1
then
	test_set_prereq MOUNT
else
	say "no tmpfs can be mounted here (it takes root, or a user namespace): the disk is not filled"
fi

for how in fill kill stop
do
	case $how in
	fill) what="space returns" ;;
	kill) what="the job-manager is killed, then space returns" ;;
	stop) what="the instance is stopped politely, then space returns" ;;
	esac
	export how
	test_expect_success MOUNT "promise: durable: the disk fills up, jobs end, $what: everything acknowledged is there" '
		mkdir $how && (cd $how && apart $how)
	'
done

test_done
