// In the place of what a browser may not see: a token in the address is exchanged for a cookie, then the same address is asked for again.
"use strict";
(async () => {
  const match = /^#token=(.+)$/.exec(location.hash);
  if (!match) return;
  history.replaceState(null, "", location.pathname + location.search);
  const answer = await fetch("/v1/weir/session", {
    method: "POST",
    headers: { "X-Nomad-Token": decodeURIComponent(match[1]) },
  });
  if (answer.ok) {
    location.reload();
  } else {
    document.getElementById("state").textContent = "this token is not good any more: 'weir open' gives another";
  }
})();
