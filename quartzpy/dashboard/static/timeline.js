// The timeline: a tip beside each run, a zoom by dragging, and arrow keys within a lane. The page works without this.
(() => {
  "use strict";
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  document.body.append(tip);
  const boxes = (svg) => [...svg.querySelectorAll("rect")];
  const textOf = (box) => {
    const title = box.querySelector("title");
    // The browser would show its own, after a while.
    if (title) { box.dataset.text = title.textContent; title.remove(); }
    return box.dataset.text || "";
  };
  const show = (box, x, y) => {
    const text = textOf(box);
    if (tip.textContent !== text) tip.textContent = text;
    tip.classList.add("shown");
    const width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - width - 4))}px`;
    tip.style.top = `${y + 18 + height > innerHeight ? y - height - 10 : y + 18}px`;
  };
  const hide = () => {
    tip.classList.remove("shown");
    for (const box of document.querySelectorAll(".runs .at")) box.classList.remove("at");
  };

  // --- The pointer.
  let drag = null;
  document.addEventListener("pointermove", (event) => {
    if (drag) { stretch(event); return; }
    const box = event.target.closest ? event.target.closest(".runs rect") : null;
    if (box) show(box, event.clientX, event.clientY);
    else if (!document.activeElement || !document.activeElement.matches(".runs")) hide();
  });
  const share = (lane, x) => {
    const place = lane.getBoundingClientRect();
    return Math.min(1, Math.max(0, (x - place.left) / place.width));
  };
  const stretch = (event) => {
    const { lane, from, band } = drag, place = lane.getBoundingClientRect();
    const to = share(lane, event.clientX);
    drag.to = to;
    band.style.left = `${place.left + scrollX + Math.min(from, to) * place.width}px`;
    band.style.width = `${Math.abs(to - from) * place.width}px`;
    band.hidden = Math.abs(to - from) * place.width < 6;
  };
  document.addEventListener("pointerdown", (event) => {
    const lane = event.target.closest ? event.target.closest(".lane, .ruler") : null;
    if (!lane || event.button !== 0 || event.pointerType === "touch") return;
    const lanes = lane.closest(".lanes[data-start]");
    if (!lanes) return;
    const band = document.createElement("div"), place = lanes.getBoundingClientRect();
    band.className = "band";
    band.hidden = true;
    band.style.top = `${place.top + scrollY}px`;
    band.style.height = `${place.height}px`;
    document.body.append(band);
    const from = share(lane, event.clientX);
    drag = { lane, lanes, band, from, to: from };
    event.preventDefault();
  });
  const drop = () => { if (drag) drag.band.remove(); const ended = drag; drag = null; return ended; };
  document.addEventListener("pointerup", () => {
    const ended = drop();
    if (!ended || ended.band.hidden) return;
    const begin = Date.parse(ended.lanes.dataset.start), whole = Date.parse(ended.lanes.dataset.end) - begin;
    const [from, to] = [ended.from, ended.to].sort((a, b) => a - b);
    if ((to - from) * whole < 1000) return;
    const url = new URL(location.href);
    url.searchParams.delete("at");
    url.searchParams.set("start", new Date(begin + from * whole).toISOString());
    url.searchParams.set("end", new Date(begin + to * whole).toISOString());
    // The click that follows must not open the run below the pointer.
    document.addEventListener("click", (click) => { click.preventDefault(); click.stopPropagation(); }, { capture: true, once: true });
    location.assign(url);
  });
  document.addEventListener("pointercancel", drop);
  document.addEventListener("htmx:after:swap", () => { drop(); hide(); });

  // --- The keyboard: one stop for each lane, and arrow keys within it.
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { drop(); hide(); return; }
    const svg = event.target;
    if (!svg.matches || !svg.matches(".runs")) return;
    const all = boxes(svg), now = all.findIndex((box) => box.classList.contains("at"));
    const last = all.length - 1;
    const to = { ArrowRight: Math.min(last, now + 1), ArrowLeft: now < 0 ? last : Math.max(0, now - 1), Home: 0, End: last }[event.key];
    if (to !== undefined && all.length) {
      event.preventDefault();
      hide();
      all[to].classList.add("at");
      const place = all[to].getBoundingClientRect();
      show(all[to], place.left, place.bottom - 14);
    } else if (event.key === "Enter" && now >= 0) {
      const link = all[now].closest("a");
      if (link) location.assign(link.getAttribute("href"));
    }
  });
})();
