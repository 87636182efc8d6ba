// Upload selected or dropped files, a few at a time; afterwards the server reports the progress of each.
"use strict";

const MAX_CONCURRENT = 3;
const area = document.getElementById("upload");
const list = document.getElementById("uploads");
const waiting = [];
let active = 0;

function add(file) {
  const row = list.appendChild(document.createElement("li"));
  waiting.push({ file, row });
  setStatus(row, file.name, "waiting");
  startNext();
}

function startNext() {
  while (active < MAX_CONCURRENT && waiting.length) {
    active += 1;
    upload(waiting.shift());
  }
  showRemaining();
}

function showRemaining() {
  const remaining = active + waiting.length;
  document.getElementById("upload-state").textContent = remaining ? `${remaining} to upload` : "All files uploaded";
}

function setStatus(row, name, text, className = "") {
  const status = document.createElement("span");
  status.textContent = text;
  status.className = className;
  row.replaceChildren(name, " ", status);
}

function upload(job) {
  const { file, row } = job;
  const request = new XMLHttpRequest();
  const options = new URLSearchParams(new FormData(document.getElementById("upload-options")));
  for (const [key, value] of [...options]) if (!value) options.delete(key);
  const bar = document.createElement("progress");
  bar.max = file.size || 1;
  bar.value = 0;
  bar.setAttribute("aria-label", `Upload of ${file.name}`);
  setStatus(row, file.name, "uploading");
  row.append(" ", bar);
  request.upload.onprogress = (event) => { bar.value = event.loaded; };
  request.onload = () => handleResponse(job, request);
  request.onerror = () => handleFailure(job, "The connection was interrupted.");
  request.open("POST", `${area.dataset.target}?${options}`);
  request.setRequestHeader("X-CSRF-Token", document.querySelector("meta[name=csrf]").content);
  request.setRequestHeader("X-File-Name", encodeURIComponent(file.name));
  request.setRequestHeader("Content-Type", "application/octet-stream");
  request.setRequestHeader("Accept", "application/json");
  request.send(file);
}

function handleResponse(job, request) {
  if (request.status === 200) {
    job.row.innerHTML = request.responseText;
    window.htmx?.process(job.row);
    active -= 1;
    startNext();
  } else {
    handleFailure(job, errorMessage(request));
  }
}

function errorMessage(request) {
  try {
    return JSON.parse(request.responseText).message;
  } catch {
    return `The server responded with status ${request.status}.`;
  }
}

function handleFailure(job, reason) {
  setStatus(job.row, job.file.name, reason, "problem");
  const retry = document.createElement("button");
  retry.type = "button";
  retry.textContent = "Try again";
  retry.addEventListener("click", () => {
    waiting.push(job);
    setStatus(job.row, job.file.name, "waiting");
    startNext();
  });
  job.row.append(" ", retry);
  active -= 1;
  startNext();
}

if (area) {
  area.hidden = false;
  acceptDrops(area, add, (name, message) => setStatus(list.appendChild(document.createElement("li")), name, message, "problem"));
  document.getElementById("upload-files").addEventListener("change", (event) => {
    for (const file of event.target.files) add(file);
    event.target.value = "";
  });
  window.addEventListener("beforeunload", (event) => {
    if (active) event.preventDefault();
  });
}
