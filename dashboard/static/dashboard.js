// On every page: the CSRF header of htmx requests, confirmations, menus, and the live overview.
"use strict";

document.addEventListener("htmx:configRequest", (event) => {
  const token = document.querySelector("meta[name=csrf]").content;
  if (token) event.detail.headers["X-CSRF-Token"] = token;
});

// Ask for confirmation (data-confirm), and ignore a second submit, as of a double click.
document.addEventListener("submit", (event) => {
  const form = event.target;
  const question = event.submitter?.dataset.confirm ?? form.dataset.confirm;
  if (form.dataset.submitted || (question && !window.confirm(question))) {
    event.preventDefault();
  } else if (form.method === "post" && !event.defaultPrevented) {
    form.dataset.submitted = "yes";
  }
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-submitted]")) delete form.dataset.submitted;
});

// Escape or a click outside closes an open menu.
for (const menu of document.querySelectorAll("header nav details")) {
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
}

// Show the HTML of each event of the stream in the target.
function followLive(target, state, button) {
  let source = null;

  function show(html) {
    const focused = target.contains(document.activeElement) && document.activeElement.id;
    target.innerHTML = html;
    if (focused) document.getElementById(focused)?.focus();
  }

  function connect() {
    source = new EventSource(target.dataset.live);
    source.onopen = () => { state.textContent = "Live"; };
    source.onmessage = (event) => show(event.data);
    source.onerror = () => {
      state.textContent = "Disconnected, reconnecting";
      // The browser does not reconnect after an error response; the reloaded page shows the reason.
      if (source.readyState === EventSource.CLOSED) location.reload();
    };
  }

  function pause() {
    source.close();
    source = null;
    state.textContent = "Paused";
  }

  button.addEventListener("click", () => {
    if (source) pause(); else connect();
    button.setAttribute("aria-pressed", String(!source));
    button.textContent = source ? "Pause" : "Resume";
  });
  connect();
}

const live = document.querySelector("[data-live]");
if (live) {
  followLive(live, document.getElementById("live-state"), document.getElementById("live-pause"));
}
