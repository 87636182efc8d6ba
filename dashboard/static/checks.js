// A job in the making: files are collected, sent together, and what is wrong is said beside each of them.
"use strict";

(() => {
  const form = document.getElementById("submit");
  if (!form) return;

  const byId = (id) => document.getElementById(id);
  const list = byId("files"), input = form.elements.images, button = form.querySelector("button.main");
  const say = (words) => { byId("submit-state").textContent = words; };
  const plain = button.textContent;
  const files = new Map(); // by the name under which they are sent
  let isSending = false, key = null;

  // Files of systems and editors that come along with folders.
  const isOfOthers = (path) => path.split("/").some((part) => part.startsWith(".") || part === "__MACOSX" || part === "Thumbs.db" || part === "desktop.ini");
  // As browsers write names into forms, and so as the server knows them.
  const sentName = (path) => path.replaceAll("\r", "%0D").replaceAll("\n", "%0A").replaceAll('"', "%22").trim();

  function element(kind, text, name = "") {
    const made = document.createElement(kind);
    made.textContent = text;
    made.className = name;
    return made;
  }

  function add(file, path) {
    if (isSending || isOfOthers(path)) return;
    const name = sentName(path);
    files.get(name)?.row.remove();
    const row = list.appendChild(document.createElement("li"));
    const label = element("bdi", path), remove = element("button", "Remove");
    remove.type = "button";
    remove.setAttribute("aria-label", `Remove ${path}`);
    remove.addEventListener("click", () => drop(name));
    row.append(label, " ", element("span", sizeOf(file.size), "size"), " ", remove);
    files.set(name, { file, path, row });
    changed();
  }

  function drop(name) {
    if (isSending) return;
    const { row } = files.get(name);
    (row.nextElementSibling ?? row.previousElementSibling)?.querySelector("button").focus();
    row.remove();
    files.delete(name);
    changed();
  }

  function sizeOf(count) {
    return count < 1e6 ? `${Math.ceil(count / 1e3)} KB` : `${(count / 1e6).toFixed(1)} MB`;
  }

  // Whatever is sent next is another job; the same one, sent again, is taken once.
  function changed() {
    key = null;
    button.textContent = files.size ? `Check ${files.size} file${files.size === 1 ? "" : "s"}` : plain;
  }

  // What is wrong ------------------------------------------------------------------------------

  function forget() {
    for (const problem of list.querySelectorAll(".problem")) problem.remove();
    byId("problems").hidden = true;
    byId("problems").querySelector("ul").replaceChildren();
  }

  function tell(message, problems = []) {
    const box = byId("problems");
    box.querySelector("p").textContent = message;
    for (const { problem, image } of problems) {
      const row = image && files.get(image)?.row;
      if (row) row.append(element("span", problem, "problem"));
      else box.querySelector("ul").append(element("li", image ? `${image}: ${problem}` : problem));
    }
    box.hidden = false;
    box.focus();
  }

  function refuse(request) {
    let answer = {};
    try {
      answer = JSON.parse(request.responseText);
    } catch { /* it was none of ours that answered */ }
    const problems = answer.problems ?? [];
    if (!problems.length) return tell(answer.message ?? `The server answered with ${request.status}.`);
    const count = problems.length === 1 ? "One thing is" : `${problems.length} things are`;
    const beside = problems.some(({ image }) => files.has(image)) ? " What is said of a file stands beside it." : "";
    tell(`Nothing was taken: ${count} wrong.${beside}`, problems);
  }

  // Sending ------------------------------------------------------------------------------------

  function content() {
    const data = new FormData(form);
    data.delete("images");
    for (const { file, path } of files.values()) data.append("images", file, path);
    key ??= [...crypto.getRandomValues(new Uint32Array(4))].join("-");
    data.set("idempotency_key", key);
    return data;
  }

  function send() {
    const bar = document.createElement("progress"), request = new XMLHttpRequest();
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", "Upload of the job");
    say("is uploaded ");
    byId("submit-state").append(bar);
    request.upload.onprogress = (event) => { bar.value = event.loaded / event.total; };
    request.upload.onload = () => say("is looked at");
    request.onload = () => ended(request);
    request.onerror = () => ended(null);
    request.open("POST", form.action);
    request.setRequestHeader("Accept", "application/json");
    request.send(content());
    isSending = button.disabled = true;
  }

  function ended(request) {
    isSending = button.disabled = false;
    say("");
    if (request?.status === 200) location.assign(JSON.parse(request.responseText).location);
    else if (request) refuse(request);
    else tell("The connection broke. Send it again: it is taken once.");
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (isSending) return;
    forget();
    const bytes = [...files.values()].reduce((sum, { file }) => sum + file.size, 0);
    const most = Number(form.dataset.mostBytes);
    if (!files.size) tell("Choose pictures first, or drop them on this page.");
    else if (bytes > most) tell(`The files have ${sizeOf(bytes)}, and ${sizeOf(most)} is the most. Send several jobs.`);
    else send();
  });

  form.addEventListener("input", () => { key = null; });
  input.required = false;
  input.addEventListener("change", () => {
    for (const file of input.files) add(file, file.name);
    input.value = "";
  });
  byId("choose").classList.add("button");
  byId("drop-hint").hidden = false;
  takeDrops(form, add, (name, problem) => tell(`${name}: ${problem}`));
  window.addEventListener("beforeunload", (event) => {
    if (isSending) event.preventDefault();
  });
})();
