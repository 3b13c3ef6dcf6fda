#!/bin/sh

test_description='weir open: the address of the page, with a token of one'\''s own'

. "$(dirname "$0")/sharness.sh"

unset DISPLAY WAYLAND_DISPLAY BROWSER

test_expect_success 'the address is printed where there is no display; its token lets in' '
	weir_instance &&
	weir open >url && test_line_count = 1 url &&
	grep -x "http://127.0.0.1:[0-9]*/#token=[A-Za-z0-9._-]*" url &&
	base=$(sed "s,#.*,," url) token=$(sed "s,.*#token=,," url) &&
	curl -s -o body -w "%{http_code}" -H "X-Nomad-Token: $token" ${base}v1/jobs >code &&
	test $(cat code) = 200 && jq -e "type == \"array\"" body &&
	test "$(curl -s -o body -w "%{http_code}" ${base}v1/jobs)" = 403
'

test_expect_success 'a path of it, and how long it is good for' '
	weir open --print --for=1h v1/jobs >url && grep "^${base}v1/jobs#token=" url &&
	weir open --json --for=1h >out && test "$(jq -s length out)" = 1 &&
	test "$(jq -r "keys_unsorted | join(\" \")" out)" = "url base token expires errors" &&
	jq -e ".expires - now > 3000 and .expires - now < 3700" out &&
	jq -e ".url == .base + \"#token=\" + .token" out
'

test_expect_success 'a browser is started where one may be; if it is not there the address is printed' '
	printf "#!/bin/sh\necho \"\$1\" >\"$PWD/opened\"\n" >browser && chmod +x browser && mkfifo opened &&
	BROWSER=$PWD/browser weir open >out && test_must_be_empty out &&
	timeout 20 head -n 1 opened >url && grep "^$base#token=" url &&
	BROWSER=$PWD/browser weir open --print >out && grep "^$base#token=" out &&
	BROWSER=$PWD/nosuch weir open >out 2>err && grep "^$base#token=" out && grep nosuch err
'

test_expect_success 'what is no path' '
	weir_fails 2 "expected a path" -- weir open "a#b" &&
	weir_fails 2 "expected a path" -- weir open "http://elsewhere/" &&
	weir_fails 1 "seconds" -- weir open --for=99999d
'

weir_stop

test_expect_success 'an instance without HTTP says so' '
	weir_instance --http=off &&
	weir_fails 1 "serves no HTTP" "--http" -- weir open
'

weir_stop

test_expect_success 'no instance' '
	weir_fails 1 "weir start" -- weir open &&
	test_expect_code 1 weir open --json >out 2>err && jq -e ".url == null and (.errors | length) == 1" out
'

test_done
