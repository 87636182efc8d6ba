// What htmx does not do by itself: the token of the session, questions before acts, the live overview.
"use strict";

document.addEventListener("htmx:configRequest", (event) => {
  const token = document.querySelector("meta[name=csrf]").content;
  if (token) event.detail.headers["X-CSRF-Token"] = token;
});

// A form with data-confirm asks first, and no form is sent twice by a double click.
document.addEventListener("submit", (event) => {
  const form = event.target;
  const question = event.submitter?.dataset.confirm ?? form.dataset.confirm;
  if (form.dataset.sent || (question && !window.confirm(question))) {
    event.preventDefault();
  } else if (form.method === "post" && !event.defaultPrevented) {
    form.dataset.sent = "yes";
  }
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// A menu that was opened is closed by Escape, and by whatever is clicked beside it.
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

// Shows what the server sends, which it has rendered as it renders pages.
function followLive(target, state, button) {
  let source = null;

  function show(html) {
    const focused = target.contains(document.activeElement) && document.activeElement.id;
    target.innerHTML = html;
    if (focused) document.getElementById(focused)?.focus();
  }

  function start() {
    source = new EventSource(target.dataset.live);
    source.onopen = () => { state.textContent = "Live"; };
    source.onmessage = (event) => show(event.data);
    source.onerror = () => {
      state.textContent = "Not live, trying again";
      // A refusal ends it for good: then the page itself says why.
      if (source.readyState === EventSource.CLOSED) location.reload();
    };
  }

  function pause() {
    source.close();
    source = null;
    state.textContent = "Paused";
  }

  button.addEventListener("click", () => {
    if (source) pause(); else start();
    button.setAttribute("aria-pressed", String(!source));
    button.textContent = source ? "Pause" : "Go on";
  });
  start();
}

const live = document.querySelector("[data-live]");
if (live) {
  followLive(live, document.getElementById("live-state"), document.getElementById("live-pause"));
}
