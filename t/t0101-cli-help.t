#!/bin/sh

test_description='Help, version, completions: every command tells what it does and how it ends'

. "$(dirname "$0")/sharness.sh"

test_expect_success 'weir --help lists the commands by what one wants to do' '
	weir --help >help &&
	for word in Jobs: Watching: Instance: submit run jobs cancel journal start queue WEIR_URI
	do
		grep -q -e "$word" help || return 1
	done &&
	weir help >help2 &&
	test_cmp help help2
'

commands='submit bulksubmit run jobs info wait cancel journal stats start ping version completions'
below_job='priority prioritize raise kill attach status wait wait-event eventlog info last id'
below_queue='status start stop enable disable idle drain'

test_expect_success 'every command has a page with its exit statuses' '
	for command in $commands
	do
		weir $command --help >page && grep -q "EXIT STATUS" page || return 1
	done &&
	for command in $below_job
	do
		weir job $command --help >page && grep -q "EXIT STATUS" page || return 1
	done &&
	for command in $below_queue
	do
		weir queue $command --help >page && grep -q "EXIT STATUS" page || return 1
	done
'

test_expect_success 'help offers nothing that is refused, and shows what it says as it is' '
	weir submit --help >page && ! grep -e --dependency page &&
	for command in version "job priority" jobs wait stats
	do
		weir $command --help >page && ! grep -F "\\\"" page || return 1
	done &&
	weir queue --help >page && grep "idle .*no job runs" page && grep "drain .*no job is active" page
'

test_expect_success 'weir help COMMAND is the same page' '
	weir help job priority >one &&
	weir job priority --help >two &&
	test_cmp two one
'

test_expect_success 'what those type who come from elsewhere is understood, and not offered' '
	weir ls --help >page && weir jobs --help >page2 && test_cmp page page2 &&
	weir kill --help >page && grep "signal" page &&
	weir submit -J one --dry-run true | jq -r .attributes.system.job.name >out &&
	weir submit --name two --dry-run true | jq -r .attributes.system.job.name >>out &&
	printf "one\ntwo\n" >expected && test_cmp expected out &&
	weir --help >page && ! grep -e "^  ls" -e "^  kill" page
'

test_expect_success 'the version needs no instance' '
	weir --version >version &&
	grep -q "^weir [0-9]*\.[0-9]*\.[0-9]*\$" version &&
	weir version --json >json &&
	test "$(jq -r .instance json)" = null
'

test_expect_success 'completions are there for each shell' '
	for shell in bash zsh fish
	do
		weir completions $shell >script && grep -q wait-event script || return 1
	done &&
	weir completions bash | bash -n
'

test_expect_success 'ids are converted without an instance' '
	test "$(weir job id --to=dec fNH 0x4d2 0000.0000.0000.04d2 job.0000.0000.0000.04d2 | sort -u)" = 1234 &&
	test "$(weir job id --to=f58 1234)" = fNH &&
	test "$(LC_ALL=C.UTF-8 weir job id --to=f58 1234)" = ƒNH &&
	test "$(LC_ALL=C.UTF-8 weir job id --to=f58plain ƒNH)" = fNH &&
	test "$(echo 443035942912 | weir job id --to=dothex)" = 0000.0067.2700.0000 &&
	test "$(weir job id --to=kvs 443035942912)" = job.0000.0067.2700.0000 &&
	test "$(weir job id --to=hex 443035942912)" = 0x6727000000
'

test_expect_success 'a reader that goes away is no error, and nothing is said' '
	weir jobs --help 2>err | : &&
	weir jobs --format=help 2>>err | head -n 1 &&
	test_must_be_empty err
'

test_done
