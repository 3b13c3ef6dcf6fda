// The jobs, live: one page of /v1/jobs/statuses/stream in a table. Text from the server is only ever set as text.
"use strict";
(async () => {
  const rows = new Map();
  let order = [];
  const body = document.getElementById("jobs");
  const none = document.getElementById("none");
  const more = document.getElementById("more");
  const state = document.getElementById("state");

  const say = (text, bad) => {
    state.textContent = text;
    state.classList.toggle("bad", Boolean(bad));
  };

  // A token in the address is exchanged for a cookie, and does not stay where others may see it.
  const match = /^#token=(.+)$/.exec(location.hash);
  if (match) {
    history.replaceState(null, "", location.pathname + location.search);
    const answer = await fetch("/v1/weir/session", {
      method: "POST",
      headers: { "X-Nomad-Token": decodeURIComponent(match[1]) },
    });
    if (!answer.ok) {
      say("this token is not good any more: 'weir open' gives another", true);
      return;
    }
  }

  const cell = (row, name, text) => {
    const at = row.querySelector("." + name) || row.appendChild(document.createElement("td"));
    at.className = name;
    at.textContent = text;
    return at;
  };

  const counts = (job) => {
    const found = Object.entries(job.ChildCounts || job.AllocCounts || {}).filter((one) => one[1] > 0);
    const what = job.ChildCounts ? "children: " : "";
    return what + found.map(([status, count]) => count + " " + status).join(", ");
  };

  const fill = (job) => {
    let row = rows.get(job.ID);
    if (!row) {
      row = document.createElement("tr");
      row.dataset.job = job.ID;
      rows.set(job.ID, row);
    }
    cell(row, "id", job.ID);
    cell(row, "name", job.Name);
    cell(row, "type", job.Type);
    const result = job.Weir && job.Weir.Result ? job.Weir.Result.toLowerCase() : "";
    const status = cell(row, "status", job.Status === "dead" && result ? result : job.Status);
    status.classList.add(result === "failed" || result === "timeout" ? "failed" : job.Status);
    cell(row, "allocs", counts(job));
    cell(row, "time", new Date(job.SubmitTime / 1e6).toLocaleString());
  };

  const show = (next) => {
    const wanted = order.map((id) => rows.get(id)).filter(Boolean);
    const kept = new Set(order);
    for (const id of [...rows.keys()]) {
      if (!kept.has(id)) rows.delete(id);
    }
    body.replaceChildren(...wanted);
    none.hidden = wanted.length > 0;
    more.hidden = !next;
  };

  const source = new EventSource("/v1/jobs/statuses/stream?per_page=50&allocs=counts");
  source.addEventListener("open", () => say("live"));
  // The page, then what changed on it: rows, and the order where that changed.
  source.addEventListener("page", (event) => {
    const page = JSON.parse(event.data);
    rows.clear();
    page.rows.forEach(fill);
    order = page.rows.map((job) => job.ID);
    show(page.next);
    say("live");
  });
  source.addEventListener("change", (event) => {
    const change = JSON.parse(event.data);
    change.rows.forEach(fill);
    const removed = new Set(change.removed);
    order = change.order || order.filter((id) => !removed.has(id));
    show(change.next);
    say("live");
  });
  source.addEventListener("stale", (event) => {
    const stale = JSON.parse(event.data).Stale;
    say(stale === null ? "live" : "the list does not follow the journal now; it is as it was", stale !== null);
  });
  source.addEventListener("end", (event) => {
    say(event.data, true);
    source.close();
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) {
      say("not let in: 'weir open' gives an address with a token", true);
    } else {
      say("connection lost; trying again …", true);
    }
  });
})();
