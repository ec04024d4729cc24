// Actions in a dialog, and the selection of rows. Every action works without this file, as a page of its own.
(() => {
  "use strict";
  const dialog = document.createElement("dialog");
  dialog.id = "action";
  document.body.append(dialog);
  const here = () => location.pathname + location.search;

  const show = (text) => {
    dialog.innerHTML = text;
    const heading = dialog.querySelector("h1, h2"), form = dialog.querySelector("form");
    if (heading) { heading.id = "action-title"; dialog.setAttribute("aria-labelledby", heading.id); }
    if (form && form.elements.next) form.elements.next.value = here();
    // With a script, the preview follows the input by itself.
    for (const button of dialog.querySelectorAll("[data-preview]")) button.hidden = true;
    htmx.process(dialog);
    if (!dialog.open) dialog.showModal();
    const first = dialog.querySelector("[aria-invalid], [autofocus]");
    if (first) first.focus();
  };

  const ask = async (url, options, fallback) => {
    let answer;
    try {
      answer = await fetch(url, { ...options, headers: { "X-Dialog": "yes" }, redirect: "error" });
    } catch {
      fallback();
      return;
    }
    const next = answer.headers.get("X-Location");
    if (next !== null) { dialog.close(); location.assign(next); return; }
    if ((answer.headers.get("content-type") || "").startsWith("text/html")) show(await answer.text());
    else fallback();
  };

  const sent = (form, button) => {
    const fields = new URLSearchParams(new FormData(form, button));
    return { method: "POST", body: fields };
  };

  // What the page shows is not known to be so any more: nothing can be decided by it.
  const isUnknown = () => document.body.classList.contains("unknown");
  document.addEventListener("click", (event) => {
    if (isUnknown() && event.target.closest("#content [data-action], #content [form=bulk]")) { event.preventDefault(); return; }
    const link = event.target.closest("a[data-action]");
    if (link && event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      ask(link.href, {}, () => location.assign(link.href));
    }
    if (event.target.closest("#action [data-close]")) { event.preventDefault(); dialog.close(); }
  });

  document.addEventListener("submit", (event) => {
    const form = event.target, button = event.submitter;
    const isBulk = form.matches("[data-bulk]");
    if (!isBulk && !dialog.contains(form)) return;
    event.preventDefault();
    if (isBulk && isUnknown()) return;
    const url = isBulk ? button.formAction : form.action;
    if (!isBulk && button) button.disabled = true;
    ask(url, sent(form, button), () => { if (isBulk) form.action = url; form.submit(); });
  });

  // --- The selection: a box for all rows of the page.
  const boxes = () => [...document.querySelectorAll('input[name="selected"][form="bulk"]')];
  const prepare = () => {
    for (const all of document.querySelectorAll("[data-all]")) {
      all.hidden = false;
      if (all.parentElement.matches("label")) all.parentElement.hidden = false;
      const chosen = boxes().filter((box) => box.checked).length;
      all.checked = chosen > 0 && chosen === boxes().length;
      all.indeterminate = chosen > 0 && chosen < boxes().length;
    }
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) for (const box of boxes()) box.checked = event.target.checked;
    if (event.target.matches("[data-all], input[name='selected']")) prepare();
  });
  document.addEventListener("htmx:after:swap", prepare);
  prepare();
})();
