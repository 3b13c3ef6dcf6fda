#!/bin/sh

test_description='The walk: 200 real jobs on two cores, the last ten raised while they run, and every listing agrees at once'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance of two cores' '
	weir_instance --runner-arg=--cores=0-1
'

# walk LOCALE DIR: the issue's walk in that locale; leaves ids, last, journal, tap in DIR
walk () {
	mkdir "$2" &&
	tap_start "$2/tap" &&
	LC_ALL=$1 weir submit --bcc=1-190 sh -c "echo \$WEIR_JOB_ID; sleep 0.1" >"$2/ids" &&
	for number in 1 2 3 4 5 6 7 8 9 10
	do
		LC_ALL=$1 weir submit sh -c "echo \$WEIR_JOB_ID; sleep 0.1" >>"$2/last" || return 1
	done &&
	cat "$2/last" >>"$2/ids" &&
	LC_ALL=$1 weir job priority $(cat "$2/last") 31 &&
	LC_ALL=$1 weir jobs --no-header --filter=pending --format="{id}" >"$2/pending" &&
	LC_ALL=$1 weir jobs --no-header >"$2/jobs"
}

# the raised jobs that still wait are the first rows, in submit order
on_top () {
	grep -F -x -f "$1/last" "$1/pending" >"$1/waiting" &&
	test $(wc -l <"$1/waiting") -ge 4 &&
	head -n $(wc -l <"$1/waiting") "$1/pending" >"$1/head" &&
	tail -n $(wc -l <"$1/waiting") "$1/last" >"$1/expected" &&
	test_cmp "$1/expected" "$1/head" &&
	head -n 1 "$1/jobs" | awk "{print \$1}" >"$1/first" &&
	grep -F -x -f "$1/last" "$1/first"
}

# all ended well, and each has said its own id as weir submit printed it
ended_well () {
	weir wait $(cat "$1/ids") &&
	weir jobs --no-header --format="{id} {status}" $(cat "$1/ids") | sort >"$1/ended" &&
	sed "s/\$/ COMPLETED/" "$1/ids" | sort >"$1/expected" &&
	test_cmp "$1/expected" "$1/ended" &&
	py walk output "$1/ids" >"$1/said" &&
	test_cmp "$1/ids" "$1/said"
}

for locale in C.UTF-8 C
do
	case $locale in C) letter=f ;; *) letter=ƒ ;; esac

	test_expect_success "$locale: 200 jobs, the last ten raised with one command while they run" '
		walk $locale $locale &&
		test $(wc -l <$locale/ids) = 200 &&
		test $(grep -c "^$letter[1-9A-Za-z]*\$" $locale/ids) = 200
	'
	test_expect_success "$locale: the very next command shows them on top, in submit order" '
		on_top $locale
	'
	test_expect_success "$locale: all 200 are COMPLETED and their output is their own id as it was printed" '
		LC_ALL=$locale ended_well $locale
	'
	test_expect_success "$locale: at most one start per core of any other job before all ten have theirs" '
		weir journal --from=all --no-follow --json >$locale/journal &&
		py walk order 2 $locale/ids $locale/last <$locale/journal
	'
	test_expect_success "$locale: the change was one batch to a listener and is one row in the log" '
		py walk grouped $locale/last <$locale/tap &&
		py walk stored state/store.sqlite $locale/last
	'
done

test_expect_success 'invariant 6: one request, one commit, one batch to each listener, one reorder pass on each side' '
	py walk quiet 30
'

test_expect_success 'nothing is held at the end' '
	test "$(weir jobs --no-header | wc -l)" = 0 &&
	weir submit --wait -n2 true
'

weir_stop

test_done
