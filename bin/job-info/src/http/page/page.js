// The jobs: a first page, then what changes on it by /v1/jobs/statuses/stream. Children are under their parent when that is unfolded.
// Text from the server is only ever set as text.
"use strict";
(() => {
  const PAGE = "per_page=50&allocs=counts";
  const CHILDREN = 50;
  const rows = new Map(); // by job: its row, its children's rows, whether they are shown
  let order = [];
  const body = document.getElementById("jobs");
  const none = document.getElementById("none");
  const more = document.getElementById("more");
  const state = document.getElementById("state");

  const say = (text, bad) => {
    state.textContent = text;
    state.classList.toggle("bad", Boolean(bad));
  };

  // Asked before the page is there, so that it is there with its jobs: the page waits for this, and nothing else is on it meanwhile.
  const ask = (method, path, headers) => {
    const request = new XMLHttpRequest();
    request.open(method, path, false);
    for (const [name, value] of Object.entries(headers || {})) request.setRequestHeader(name, value);
    try {
      request.send();
    } catch {
      return null;
    }
    return request;
  };

  const cell = (row, name, text) => {
    const at = row.querySelector("." + name) || row.appendChild(document.createElement("td"));
    at.className = name;
    at.textContent = text;
    return at;
  };

  const isParent = (job) => Boolean(job.ChildCounts);

  const listed = (...counts) => {
    const found = counts.flatMap((one) => Object.entries(one || {})).filter(([, count]) => count > 0);
    return found.map(([name, count]) => count + " " + name).join(", ");
  };

  const counts = (job) => {
    if (!isParent(job)) return listed(job.AllocCounts);
    const { pending, running } = job.ChildCounts;
    return listed({ pending, running }, job.ChildResults) || "no children";
  };

  // What a parent is, not what it does: it never runs.
  const status = (job) => {
    const result = job.Weir && job.Weir.Result ? job.Weir.Result.toLowerCase() : "";
    if (isParent(job)) return job.Status === "dead" ? ["ended", "dead"] : ["dispatchable", "parent"];
    const kind = result === "failed" || result === "timeout" ? "failed" : job.Status;
    return [job.Status === "dead" && result ? result : job.Status, kind];
  };

  const fill = (row, job, shown) => {
    row.dataset.job = job.ID;
    cell(row, "id", shown || job.ID);
    cell(row, "name", job.Name);
    cell(row, "type", isParent(job) ? "parameterized " + job.Type : job.Type);
    const [text, kind] = status(job);
    cell(row, "status", text).classList.add(kind);
    return cell(row, "allocs", counts(job));
  };

  const time = (row, job) => cell(row, "time", new Date(job.SubmitTime / 1e6).toLocaleString());

  // Children: asked for when they are unfolded, and again when the parent's row says that something changed.
  const load = async (entry) => {
    if (entry.loading) {
      entry.again = true;
      return;
    }
    entry.loading = true;
    do {
      entry.again = false;
      const filter = encodeURIComponent('ParentID == "' + entry.job.ID + '"');
      const path = "/v1/jobs/statuses?include_children=true&allocs=counts&per_page=" + CHILDREN + "&filter=" + filter;
      try {
        const answer = await fetch(path);
        if (!answer.ok) throw new Error(await answer.text());
        const jobs = await answer.json();
        entry.children = jobs.map((job) => {
          const row = document.createElement("tr");
          row.className = "child";
          fill(row, job, job.Weir.ID);
          time(row, job);
          return row;
        });
        if (answer.headers.get("X-Nomad-NextToken")) entry.children.push(rest("the others: weir jobs -a -f parent:" + entry.job.ID));
      } catch (error) {
        entry.children = [rest("the children cannot be shown: " + error.message)];
      }
    } while (entry.again && entry.open);
    entry.loading = false;
    show();
  };

  const rest = (text) => {
    const row = document.createElement("tr");
    row.className = "rest";
    const at = row.appendChild(document.createElement("td"));
    at.colSpan = 6;
    at.textContent = text;
    return row;
  };

  const put = (job) => {
    let entry = rows.get(job.ID);
    if (!entry) {
      entry = { row: document.createElement("tr"), children: [], open: false, loading: false, again: false };
      rows.set(job.ID, entry);
    }
    entry.job = job;
    const at = fill(entry.row, job);
    time(entry.row, job);
    if (!isParent(job)) return;
    const total = Object.values(job.ChildCounts).reduce((sum, count) => sum + count, 0);
    if (total === 0) {
      entry.open = false;
      return;
    }
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = at.textContent;
    button.setAttribute("aria-expanded", String(entry.open));
    button.addEventListener("click", () => {
      entry.open = !entry.open;
      button.setAttribute("aria-expanded", String(entry.open));
      if (entry.open) load(entry);
      else show();
    });
    at.replaceChildren(button);
    if (entry.open) load(entry);
  };

  let next = null;
  const show = () => {
    const kept = new Set(order);
    for (const id of [...rows.keys()]) {
      if (!kept.has(id)) rows.delete(id);
    }
    const entries = order.map((id) => rows.get(id)).filter(Boolean);
    const focused = document.activeElement;
    body.replaceChildren(...entries.flatMap((entry) => [entry.row, ...(entry.open ? entry.children : [])]));
    if (focused && focused.isConnected) focused.focus();
    none.hidden = entries.length > 0;
    more.hidden = !next;
  };

  const whole = (jobs, token) => {
    jobs.forEach(put);
    order = jobs.map((job) => job.ID);
    next = token;
    show();
  };

  // A token in the address is exchanged for a cookie, and does not stay where others may see it.
  const match = /^#token=(.+)$/.exec(location.hash);
  if (match) {
    history.replaceState(null, "", location.pathname + location.search);
    const answer = ask("POST", "/v1/weir/session", { "X-Nomad-Token": decodeURIComponent(match[1]) });
    if (answer && answer.status === 403) {
      say("this token is not good any more: 'weir open' gives another", true);
      return;
    }
  }
  const first = ask("GET", "/v1/jobs/statuses?" + PAGE);
  if (first && first.status === 403) {
    say("not let in: 'weir open' gives an address with a token", true);
    return;
  }
  if (first && first.status === 200) {
    whole(JSON.parse(first.responseText), first.getResponseHeader("X-Nomad-NextToken"));
  }

  const source = new EventSource("/v1/jobs/statuses/stream?" + PAGE);
  source.addEventListener("open", () => say("live"));
  // The page, then what changed on it: rows, and the order where that changed.
  source.addEventListener("page", (event) => {
    const page = JSON.parse(event.data);
    whole(page.rows, page.next);
    say("live");
  });
  source.addEventListener("change", (event) => {
    const change = JSON.parse(event.data);
    change.rows.forEach(put);
    const removed = new Set(change.removed);
    order = change.order || order.filter((id) => !removed.has(id));
    next = change.next;
    show();
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
