#!/bin/sh

test_description='weir jobs -o, and what is shown at a terminal and what into a pipe'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'an instance with a held job and one that ended' '
	weir_instance &&
	id=$(weir submit --urgency=hold --job-name=hold-me -n2 -t 90s true) &&
	done=$(weir submit --job-name=done true) &&
	weir wait $done
'

# one FORMAT: the line for the held job
one () {
	weir jobs -n -o "$1" $id
}

test_expect_success 'fields, widths and alignment' '
	test "$(one "{id}|{id.dec}|{id.f58plain}|{id.dothex}")" = "$id|$(weir job id $id)|$id|$(weir job id --to=dothex $id)" &&
	test "$(one "[{name:>10}][{name:<10}][{name:^11}][{name:.4}]")" = "[   hold-me][hold-me   ][  hold-me  ][hold]" &&
	test "$(one "{ntasks:04d} {urgency} {state} {status_abbrev} {{x}}")" = "0002 0 SCHED S {x}" &&
	test "$(one "{duration!F} {duration!H} {duration:.1f}")" = "1.5m 0:01:30 90.0" &&
	test "$(one "[{t_run}][{t_run:h}][{runtime!F:>5h}]")" = "[][-][    -]"
'

test_expect_success 'times are read as times' '
	one "{t_submit!D}" | grep -x "20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]" &&
	test "$(one "{t_submit!d}")" = "$(one "{t_submit!D}")" &&
	one "{t_submit!d:%b%d %R::>14}" | grep "^   [A-Z][a-z][a-z][0-3][0-9] [0-2][0-9]:[0-5][0-9]$" &&
	test "$(one "[{t_run!d:%R::>6h}]")" = "[     -]" &&
	weir_fails 2 "%!" -- weir jobs -o "{t_submit!d:%!}" &&
	one "{t_submit}" | grep "^[0-9]*\.[0-9]*$"
'

test_expect_success 'rows are sorted as the format says' '
	names="sort:name {name}" &&
	test "$(weir jobs -a -n -o "$names" | xargs)" = "done hold-me" &&
	test "$(weir jobs -a -n -o "sort:-name {name}" | xargs)" = "hold-me done" &&
	test "$(weir jobs -n -o "sort:id {name}" $done $id | xargs)" = "hold-me done" &&
	test "$(weir jobs -n -o "{name}" $done $id | xargs)" = "done hold-me" &&
	weir_fails 2 "sort:nosuch" "unknown field" -- weir jobs -o "sort:nosuch {id}"
'

test_expect_success 'a heading stands above each column, unless it is not wanted' '
	weir jobs -o "{id.f58:>12} {name:<8} {state}" $id | head -n 1 >heading &&
	echo "       JOBID NAME     STATE" >expected &&
	test_cmp expected heading &&
	weir jobs -n $id >out && test_line_count = 1 out
'

test_expect_success 'columns that are empty in every row are left out, others widened' '
	weir jobs -a -o "?:{queue:<8} +:{name:<2}|{state}" >out &&
	{ echo "NAME   |STATE"; echo "hold-me|SCHED"; echo "done   |INACTIVE"; } >expected &&
	test_cmp expected out
'

test_expect_success 'named formats, and the list of what there is' '
	for name in default long deps endreason
	do
		weir jobs -a -o $name >out && test_line_count = 3 out || return 1
	done &&
	weir jobs -o help | grep contextual_info
'

test_expect_success 'into a pipe: always the same columns, no cell empty, no colours' '
	weir jobs -a >out &&
	awk "{ print NF }" out | sort -u >fields &&
	echo 9 >expected &&
	test_cmp expected fields &&
	! grep "$(printf "\033")" out
'

test_expect_success 'colours when told to' '
	weir jobs --color=always | grep -q "$(printf "\033\\[33m S\033\\[0m")"
'

command -v script >/dev/null && test_set_prereq TERMINAL

test_expect_success TERMINAL 'at a terminal: fitted to it, in colour unless NO_COLOR is set' '
	TERM=xterm script -q -e -c "stty cols 60; weir jobs" /dev/null </dev/null >tty &&
	grep -q "$(printf "\033\\[1m")" tty &&
	! grep -q QUEUE tty &&
	TERM=xterm NO_COLOR=1 script -q -e -c "stty cols 60; weir jobs" /dev/null </dev/null >tty &&
	! grep -q "$(printf "\033")" tty &&
	tr -d "\r" <tty | awk "length > 60 { exit 1 }"
'

test_expect_success TERMINAL 'at a terminal a name is cut before anything else; into a pipe nothing is' '
	name=$(printf "%0200d" 0) &&
	long=$(weir submit --urgency=hold --job-name=$name true) &&
	TERM=xterm NO_COLOR=1 script -q -e -c "stty cols 80; weir jobs -n; weir jobs -n -o long" /dev/null </dev/null >tty &&
	tr -d "\r" <tty | grep " S  *1  *- .* held$" &&
	tr -d "\r" <tty | awk "length > 84 { exit 1 }" &&
	weir jobs >out &&
	grep $name out &&
	awk "{ print index(\$0, NR == 1 ? \" ST \" : \"  S \") }" out | sort -u >places &&
	test_line_count = 1 places &&
	weir cancel $long
'

test_expect_success 'weir info is a page for people' '
	weir info $id >out &&
	grep "^name  *hold-me$" out && grep "^status  *SCHED$" out && grep "^waits for  *held$" out && grep "^limit  *1.5m$" out
'

weir_stop

test_done
