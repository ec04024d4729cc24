// Live updates, relative times, and the keyboard. Every page works without this file.
(() => {
  "use strict";
  const body = document.body;
  const content = () => document.getElementById("content");

  // --- Times: relative ones count on, by the clock of the server.
  let ahead = 0;
  const synchronize = () => { ahead = Date.parse(content().dataset.now) - Date.now(); };
  const steps = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const coarse = (seconds) => {
    const parts = [];
    for (const [unit, size] of steps) {
      const count = Math.floor(seconds / size);
      if (count || (unit === "s" && !parts.length)) {
        parts.push(`${count} ${unit}`);
        if (parts.length === 2 || (unit === "min" && count >= 10)) break;
      } else if (parts.length) break;
      seconds -= count * size;
    }
    return parts.join(" ");
  };
  const relative = (at) => {
    const seconds = Math.round((at - Date.now() - ahead) / 1000);
    if (seconds === 0) return "now";
    return seconds > 0 ? `in ${coarse(seconds)}` : `${coarse(-seconds)} ago`;
  };
  const tick = () => {
    for (const element of document.querySelectorAll('time[data-form="relative"], time[data-form="next"]')) {
      const at = Date.parse(element.dateTime);
      // No instant that has passed is a next one: until the page is fetched again, the fire is due.
      const text = element.dataset.form === "next" && at < Date.now() + ahead ? "due" : relative(at);
      if (element.textContent !== text) element.textContent = text;
    }
  };
  synchronize();
  setInterval(() => { if (!document.hidden) tick(); }, 1000);

  // --- Live: the stream names what has changed, and the page fetches its content again if it shows that.
  const indicator = document.getElementById("live"), unknown = document.getElementById("unknown");
  let stream = null, paused = false, pending = false, busy = false, begun = 0, next = 0, retry = 0;
  let connected = false, answered = true, polls = false, slow = 0;
  // While no answer comes, the page says since when it shows only what was, and acts on nothing. The content carries the
  // instant of its facts; the first answer replaces it, and ends this.
  const zone = document.documentElement.dataset.zone;
  const clock = (at) => {
    const form = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
    try { return at.toLocaleTimeString("en-GB", { ...form, timeZone: zone }); } catch { return at.toLocaleTimeString("en-GB", form); }
  };
  const causes = { 0: "the dashboard does not answer", 503: "the database cannot be reached" };
  const know = (status) => {
    answered = status > 0 && status < 500;
    document.body.classList.toggle("unknown", !answered);
    for (const act of document.querySelectorAll("#content [data-action], #content [form=bulk]")) {
      if (answered) act.removeAttribute("aria-disabled"); else act.setAttribute("aria-disabled", "true");
    }
    unknown.hidden = answered;
    if (answered) return;
    const since = content().dataset.now;
    const cause = causes[status] || "the dashboard cannot read the database";
    const text = `Not known since ${clock(new Date(since))}: ${cause}.`;
    if (unknown.firstElementChild.textContent !== text) unknown.firstElementChild.textContent = text;
    unknown.querySelector("time").dateTime = since;
    tick();
  };
  const show = () => {
    const state = paused ? "off" : !answered ? "lost" : connected ? "on" : polls ? "polls" : "lost";
    indicator.dataset.state = state;
    indicator.textContent = { on: "Live", off: "Paused", lost: "Reconnecting", polls: "Every 10 s" }[state];
  };
  // What an open page fetches is limited: after the first refreshes it is about 4 MB an hour, unless somebody uses the
  // page. Even then it is never older than ten seconds.
  const RATE = 1200, MAX_WAIT = 10000;
  const burst = () => Number(body.dataset.burst || 400000);
  let credit = burst(), earned = Date.now(), waiting = 0;
  const spend = () => {
    const fetched = performance.getEntriesByType("resource").at(-1), now = Date.now();
    performance.clearResourceTimings();
    credit = Math.min(burst(), credit + ((now - earned) / 1000) * RATE) - (fetched ? fetched.transferSize : 0);
    earned = now;
    return credit < 0 ? Math.min(MAX_WAIT, (-credit / RATE) * 1000) : 0;
  };
  const used = () => {
    if (credit >= 0) return;
    credit = burst() / 4; next = 0;
    if (waiting) { clearTimeout(waiting); waiting = 0; busy = false; refresh(); }
  };
  for (const kind of ["pointerdown", "keydown", "wheel"]) document.addEventListener(kind, used, { passive: true });
  const isEditing = () => document.querySelector("dialog[open], #content form[data-editing]") !== null;
  const refresh = () => {
    if (busy || document.hidden || paused || isEditing()) return;
    const wait = next - Date.now();
    if (wait > 0) { busy = true; waiting = setTimeout(() => { waiting = 0; busy = false; refresh(); }, wait); return; }
    pending = false; busy = true; begun = Date.now();
    clearTimeout(slow);
    slow = setTimeout(() => { know(503); show(); }, 10000);
    htmx.trigger(content(), "refresh");
  };
  const ended = (event) => {
    const context = event.detail.ctx;
    if (context.sourceElement.id !== "content") return;
    busy = false;
    // A busy server is asked less often: at most a quarter of the time is spent on asking it.
    next = Math.max(begun + 1000, Date.now() + 3 * (Date.now() - begun), begun + spend());
    const status = context.response ? context.response.raw.status : 0;
    clearTimeout(slow);
    know(status);
    show();
    clearTimeout(retry);
    if (!answered) retry = setTimeout(() => { pending = true; refresh(); }, 3000);
    if (pending) refresh();
  };
  const changed = (topics) => {
    const shown = (content().dataset.topics || "").split(" ");
    if (topics.some((topic) => shown.includes(topic))) { pending = true; refresh(); }
  };
  const open = () => {
    if (stream || paused || document.hidden || !content().dataset.topics) return;
    stream = new EventSource(body.dataset.live);
    stream.addEventListener("hello", () => {
      // What changed while there was no stream is fetched at once; the first stream follows the page itself.
      if (begun) { pending = true; refresh(); }
      connected = true; polls = false; begun = begun || 1;
      show();
    });
    stream.addEventListener("changed", (event) => changed(event.data.split(" ")));
    stream.onerror = () => {
      // Whether the server still answers is asked at once: what the page shows may no longer be so. It is asked again with
      // each vain attempt to connect: a server that ends may answer once more after it has closed the stream.
      if (connected || (stream && stream.readyState === EventSource.CONNECTING)) { pending = true; refresh(); }
      connected = false;
      // The browser connects again by itself, unless the answer was not a stream: the server has too many of them, or
      // a proxy answered. Until there is one, the page asks by itself.
      if (stream && stream.readyState === EventSource.CLOSED) {
        close();
        polls = true; begun = begun || 1;
        setTimeout(() => { if (!paused && !document.hidden) { pending = true; refresh(); open(); } }, 10000);
      }
      show();
    };
  };
  const close = () => { if (stream) stream.close(); stream = null; };
  const toggle = () => {
    paused = !paused;
    if (paused) close(); else { pending = true; open(); refresh(); }
    show();
  };
  document.addEventListener("visibilitychange", () => {
    // A hidden page holds no connection: browsers allow only six to one server.
    if (document.hidden) close(); else { open(); if (!paused) { pending = true; refresh(); } }
  });
  // Lists whose rows must not move under the reader stay as they are: the new rows are counted, and a click shows them.
  let released = false;
  const hold = (event) => {
    const context = event.detail.ctx, news = content().querySelector("[data-steady]");
    if (context.sourceElement.id !== "content" || !news || released) return;
    const shown = new Set([...content().querySelectorAll("tbody tr[id]")].map((row) => row.id));
    const fresh = new DOMParser().parseFromString(context.text, "text/html").getElementById("content");
    if (!fresh || !shown.size) return;
    const rows = [...fresh.querySelectorAll("tbody tr[id]")], added = rows.filter((row) => !shown.has(row.id)).length;
    if (!added) return;
    event.preventDefault();
    content().dataset.now = fresh.dataset.now;
    synchronize(); tick();
    news.textContent = `${added}${added === rows.length ? " or more" : ""} new, show`;
    news.disabled = false;
  };
  document.addEventListener("htmx:before:swap", hold);
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-steady]")) return;
    released = true; next = 0; pending = true;
    if (waiting) { clearTimeout(waiting); waiting = 0; busy = false; }
    refresh();
  });
  document.addEventListener("htmx:finally:request", ended);
  document.addEventListener("htmx:after:swap", () => { released = false; synchronize(); tick(); });
  window.addEventListener("pagehide", close);
  if (indicator && content().dataset.topics) {
    indicator.hidden = false;
    indicator.addEventListener("click", toggle);
    open();
  }

  // --- A page that could not be read is read again by itself.
  if (document.querySelector("[data-again]")) {
    const again = () => fetch(location.href).then((answer) => answer.status < 500, () => false)
      .then((read) => { if (read) location.reload(); else setTimeout(again, 5000); });
    setTimeout(again, 5000);
  }

  // --- Phones: the menu is closed until it is wanted.
  const menu = document.querySelector(".menu");
  if (menu && matchMedia("(max-width: 52rem)").matches) menu.open = false;

  // What scrolls, and has nothing in it that takes the focus, takes it itself: the arrow keys then scroll it.
  const reach = () => {
    for (const box of document.querySelectorAll(".scroll, .tail, pre")) {
      const scrolls = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
      const moves = scrolls && getComputedStyle(box).overflowX !== "visible";
      const held = box.querySelector("a[href], button:not([disabled]), input, select, textarea, summary, [tabindex]");
      if (moves && !held && !box.hasAttribute("tabindex")) {
        const name = box.closest(".panel")?.querySelector("h2")?.textContent || document.title;
        for (const [key, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", name], ["data-reach", ""]]) box.setAttribute(key, value);
      } else if (!moves && box.hasAttribute("data-reach")) {
        for (const key of ["tabindex", "role", "aria-label", "data-reach"]) box.removeAttribute(key);
      }
    }
  };
  reach();
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);
  document.addEventListener("htmx:after:swap", reach);

  // The year of a calendar scrolls there: it begins with today.
  const today = document.querySelector(".scroll .day.today");
  if (today) {
    const box = today.closest(".scroll"), place = today.getBoundingClientRect(), edge = box.getBoundingClientRect();
    box.scrollLeft += place.left - edge.left - edge.width / 2;
  }

  // --- The keyboard.
  const keys = document.getElementById("keys"), help = document.getElementById("help");
  help.hidden = false;
  const showKeys = () => { if (!keys.open) keys.showModal(); };
  help.addEventListener("click", showKeys);
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (target.closest("input, select, textarea, [contenteditable]")) { if (event.key === "Escape") target.blur(); return; }
    if (document.querySelector("dialog[open]")) return;
    if (Date.now() - going < 1500) {
      going = 0;
      const link = document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); return; }
    }
    if (event.key === "g") going = Date.now();
    else if (event.key === "/") { event.preventDefault(); const find = document.getElementById("find"); find.focus(); find.select(); }
    else if (event.key === "?") { event.preventDefault(); showKeys(); }
    else if (event.key === "p" && !indicator.hidden) toggle();
  });
})();
