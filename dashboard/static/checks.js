// The form of a new check job: collect files, submit them together, show the problems of each file beside it.
"use strict";

(() => {
  const form = document.getElementById("submit");
  if (!form) return;

  const byId = (id) => document.getElementById(id);
  const list = byId("files"), input = form.elements.images, button = form.querySelector("button.main");
  const setStatus = (text) => { byId("submit-state").textContent = text; };
  const defaultLabel = button.textContent;
  const files = new Map(); // by the name in the form data
  let isSubmitting = false, idempotencyKey = null;

  // Files that operating systems and editors put into folders.
  const isSystemFile = (path) => path.split("/").some((part) => part.startsWith(".") || part === "__MACOSX" || part === "Thumbs.db" || part === "desktop.ini");
  // The name as browsers encode it in form data, which is how the server reports it.
  const formName = (path) => path.replaceAll("\r", "%0D").replaceAll("\n", "%0A").replaceAll('"', "%22").trim();

  function createElement(tag, text, className = "") {
    const element = document.createElement(tag);
    element.textContent = text;
    element.className = className;
    return element;
  }

  function addFile(file, path) {
    if (isSubmitting || isSystemFile(path)) return;
    const name = formName(path);
    files.get(name)?.row.remove();
    const row = list.appendChild(document.createElement("li"));
    const label = createElement("bdi", path), remove = createElement("button", "Remove");
    remove.type = "button";
    remove.setAttribute("aria-label", `Remove ${path}`);
    remove.addEventListener("click", () => removeFile(name));
    row.append(label, " ", createElement("span", formatSize(file.size), "size"), " ", remove);
    files.set(name, { file, path, row });
    updateForm();
  }

  function removeFile(name) {
    if (isSubmitting) return;
    const { row } = files.get(name);
    (row.nextElementSibling ?? row.previousElementSibling)?.querySelector("button").focus();
    row.remove();
    files.delete(name);
    updateForm();
  }

  function formatSize(count) {
    return count < 1e6 ? `${Math.ceil(count / 1e3)} KB` : `${(count / 1e6).toFixed(1)} MB`;
  }

  // A changed form is another job and needs a new key; an unchanged one, submitted again, creates no second job.
  function updateForm() {
    idempotencyKey = null;
    button.textContent = files.size ? `Check ${files.size} file${files.size === 1 ? "" : "s"}` : defaultLabel;
  }

  // Problems -----------------------------------------------------------------------------------

  function clearProblems() {
    for (const problem of list.querySelectorAll(".problem")) problem.remove();
    byId("problems").hidden = true;
    byId("problems").querySelector("ul").replaceChildren();
  }

  function showProblems(message, problems = []) {
    const box = byId("problems");
    box.querySelector("p").textContent = message;
    for (const { problem, image } of problems) {
      const row = image && files.get(image)?.row;
      if (row) row.append(createElement("span", problem, "problem"));
      else box.querySelector("ul").append(createElement("li", image ? `${image}: ${problem}` : problem));
    }
    box.hidden = false;
    box.focus();
  }

  function showRefusal(request) {
    let body = {};
    try {
      body = JSON.parse(request.responseText);
    } catch { /* not a response of Pagewarden, perhaps of a proxy */ }
    const problems = body.problems ?? [];
    if (!problems.length) return showProblems(body.message ?? `The server responded with status ${request.status}.`);
    const count = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
    const hint = problems.some(({ image }) => files.has(image)) ? " Problems with a file are shown next to it." : "";
    showProblems(`The job was not accepted: ${count} found.${hint}`, problems);
  }

  // Submitting ---------------------------------------------------------------------------------

  function formData() {
    const data = new FormData(form);
    data.delete("images");
    for (const { file, path } of files.values()) data.append("images", file, path);
    idempotencyKey ??= [...crypto.getRandomValues(new Uint32Array(4))].join("-");
    data.set("idempotency_key", idempotencyKey);
    return data;
  }

  function submit() {
    const bar = document.createElement("progress"), request = new XMLHttpRequest();
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", "Upload of the job");
    setStatus("Uploading ");
    byId("submit-state").append(bar);
    request.upload.onprogress = (event) => { bar.value = event.loaded / event.total; };
    request.upload.onload = () => setStatus("Validating the job");
    request.onload = () => handleResponse(request);
    request.onerror = () => handleResponse(null);
    request.open("POST", form.action);
    request.setRequestHeader("Accept", "application/json");
    request.send(formData());
    isSubmitting = button.disabled = true;
  }

  function handleResponse(request) {
    isSubmitting = button.disabled = false;
    setStatus("");
    if (request?.status === 200) location.assign(JSON.parse(request.responseText).location);
    else if (request) showRefusal(request);
    else showProblems("The connection was interrupted. Submit again; no second job is created.");
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (isSubmitting) return;
    clearProblems();
    const bytes = [...files.values()].reduce((sum, { file }) => sum + file.size, 0);
    const maxBytes = Number(form.dataset.maxBytes);
    if (!files.size) showProblems("Select pictures first, or drop them on this page.");
    else if (bytes > maxBytes) showProblems(`The files total ${formatSize(bytes)}; the limit is ${formatSize(maxBytes)}. Split them into several jobs.`);
    else submit();
  });

  form.addEventListener("input", () => { idempotencyKey = null; });
  input.required = false;
  input.addEventListener("change", () => {
    for (const file of input.files) addFile(file, file.name);
    input.value = "";
  });
  byId("choose").classList.add("button");
  byId("drop-hint").hidden = false;
  acceptDrops(form, addFile, (name, message) => showProblems(`${name}: ${message}`));
  window.addEventListener("beforeunload", (event) => {
    if (isSubmitting) event.preventDefault();
  });
})();
