#!/bin/sh

test_description='a purge is possible on a full disk: it is the remedy'

. "$(dirname "$0")/sharness.sh"

# apart MODULE ARGUMENTS: in a mount namespace of its own, so that nothing stays mounted whatever happens
apart () {
	apart_module=$1
	shift
	unshare -m env PYTHONPATH="$LIB" python3 "$LIB/$apart_module.py" "$@"
}

if mkdir try && (cd try && apart disk_full try) >/dev/null 2>&1
then
	test_set_prereq MOUNT
else
	say "no tmpfs can be mounted here (it takes root, or a user namespace): the disk is not filled"
fi

for size in 5m 24m
do
	export size
	test_expect_success MOUNT "a disk of $size is full of jobs that have ended; they are purged; submits are taken again, twice" '
		mkdir disk.$size && (cd disk.$size && apart purge_full $size)
	'
done

test_done
