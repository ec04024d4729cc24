// The timeline and the plots: a tip beside each run, arrow keys within a drawing, and a zoom of the timeline by dragging.
// The pages work without this.
(() => {
  "use strict";
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  document.body.append(tip);
  // What a lane shows: its runs, or the cells in which they are counted.
  const textOf = (box) => {
    const title = box.querySelector("title");
    // The browser would show its own, after a while.
    if (title) { box.dataset.text = title.textContent; title.remove(); }
    return box.dataset.text || "";
  };
  const cellsOf = (svg) => {
    if (!svg.cells) svg.cells = new Map(JSON.parse(svg.dataset.cells));
    return svg.cells;
  };
  const cellText = (svg, number) => {
    const { start, end, zone } = svg.closest(".lanes").dataset, from = Date.parse(start), parts = Number(svg.dataset.parts);
    const at = (place) => new Date(from + ((Date.parse(end) - from) * place) / parts);
    const form = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZone: zone };
    if (Date.parse(end) - from > 86400000) Object.assign(form, { weekday: "short", day: "2-digit" });
    const clock = new Intl.DateTimeFormat("en-GB", form);
    return `${clock.format(at(number))} to ${clock.format(at(number + 1))}: ${cellsOf(svg).get(number)}`;
  };
  const mark = (svg, number) => {
    const box = document.createElementNS("http://www.w3.org/2000/svg", "rect"), size = 1000 / Number(svg.dataset.parts);
    for (const [name, value] of Object.entries({ x: number * size, y: 4, width: size - 1, height: 30 })) box.setAttribute(name, value);
    box.setAttribute("class", "at counted");
    box.dataset.text = cellText(svg, number);
    box.dataset.cell = number;
    svg.append(box);
    return box;
  };
  let anchor = null;
  const show = (text, x, y, of) => {
    anchor = of;
    if (tip.textContent !== text) tip.textContent = text;
    tip.classList.add("shown");
    const width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - width - 4))}px`;
    tip.style.top = `${y + 18 + height > innerHeight ? y - height - 10 : y + 18}px`;
  };
  const hide = () => {
    tip.classList.remove("shown");
    for (const box of document.querySelectorAll(".runs .at")) {
      if (box.classList.contains("counted")) box.remove(); else box.classList.remove("at");
    }
  };

  // --- The pointer.
  let drag = null;
  const point = (event) => {
    if (drag) { stretch(event); return; }
    const svg = event.target.closest ? event.target.closest(".runs") : null;
    const box = svg && event.target.closest(svg.matches(".plot") ? "rect.hit" : "rect, .mark, .ended");
    const cell = svg && svg.dataset.cells ? Math.floor(share(svg, event.clientX) * Number(svg.dataset.parts)) : -1;
    if (box && box.matches(".mark, .ended")) show(textOf(box), event.clientX, event.clientY, box);
    else if (cell >= 0 && cellsOf(svg).has(cell)) show(cellText(svg, cell), event.clientX, event.clientY, svg);
    else if (box) show(textOf(box), event.clientX, event.clientY, box);
    else if (event.type === "pointerdown" || !document.activeElement || !document.activeElement.matches(".runs")) hide();
  };
  document.addEventListener("pointermove", point);
  // A finger does not hover: it taps, and the tip stays until the next tap.
  document.addEventListener("pointerdown", (event) => { if (event.pointerType === "touch") point(event); });
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
  // A live page that is fetched anew keeps the tip of what the pointer is on.
  document.addEventListener("htmx:after:swap", () => {
    drop();
    if (!anchor || !anchor.isConnected || !anchor.matches(":hover, .at")) hide();
  });

  // --- The keyboard: one stop for each lane, and arrow keys within it.
  document.addEventListener("focusout", (event) => { if (event.target.matches(".runs")) hide(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { drop(); hide(); return; }
    const svg = event.target;
    if (!svg.matches || !svg.matches(".runs")) return;
    const counted = svg.dataset.cells ? [...cellsOf(svg).keys()] : null;
    const reached = svg.querySelector(".at"), all = counted || [...svg.querySelectorAll(svg.matches(".plot") ? "rect.hit" : "rect, .mark")], last = all.length - 1;
    const now = reached ? all.indexOf(counted ? Number(reached.dataset.cell) : reached) : -1;
    const to = { ArrowRight: Math.min(last, now + 1), ArrowLeft: now < 0 ? last : Math.max(0, now - 1), Home: 0, End: last }[event.key];
    if (to !== undefined && all.length) {
      event.preventDefault();
      hide();
      const box = counted ? mark(svg, all[to]) : all[to];
      box.classList.add("at");
      const place = box.getBoundingClientRect();
      show(textOf(box), place.left, place.bottom - 14, box);
    } else if (event.key === "Enter" && now >= 0) {
      const link = reached.closest("a");
      if (link) location.assign(link.getAttribute("href"));
    }
  });
})();
