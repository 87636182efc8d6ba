// Files dropped or chosen go up a few at a time; then the server shows how far each is.
"use strict";

const AT_ONCE = 3;
const area = document.getElementById("upload");
const list = document.getElementById("uploads");
const waiting = [];
let active = 0;

function add(file) {
  const row = list.appendChild(document.createElement("li"));
  waiting.push({ file, row });
  say(row, file.name, "waits");
  next();
}

function next() {
  while (active < AT_ONCE && waiting.length) {
    active += 1;
    send(waiting.shift());
  }
  tell();
}

function tell() {
  const open = active + waiting.length;
  document.getElementById("upload-state").textContent = open ? `${open} to upload` : "All uploaded";
}

function say(row, name, text, kind = "") {
  const said = document.createElement("span");
  said.textContent = text;
  said.className = kind;
  row.replaceChildren(name, " ", said);
  return said;
}

function send(job) {
  const { file, row } = job;
  const request = new XMLHttpRequest();
  const wishes = new URLSearchParams(new FormData(document.getElementById("upload-wishes")));
  for (const [key, value] of [...wishes]) if (!value) wishes.delete(key);
  const bar = document.createElement("progress");
  bar.max = file.size || 1;
  bar.value = 0;
  bar.setAttribute("aria-label", `Upload of ${file.name}`);
  say(row, file.name, "is uploaded");
  row.append(" ", bar);
  request.upload.onprogress = (event) => { bar.value = event.loaded; };
  request.onload = () => ended(job, request);
  request.onerror = () => failed(job, "The connection broke.");
  request.open("POST", `${area.dataset.target}?${wishes}`);
  request.setRequestHeader("X-CSRF-Token", document.querySelector("meta[name=csrf]").content);
  request.setRequestHeader("X-File-Name", encodeURIComponent(file.name));
  request.setRequestHeader("Content-Type", "application/octet-stream");
  request.setRequestHeader("Accept", "application/json");
  request.send(file);
}

function ended(job, request) {
  if (request.status === 200) {
    job.row.innerHTML = request.responseText;
    window.htmx?.process(job.row);
    active -= 1;
    next();
  } else {
    failed(job, message(request));
  }
}

function message(request) {
  try {
    return JSON.parse(request.responseText).message;
  } catch {
    return `The server answered with ${request.status}.`;
  }
}

function failed(job, why) {
  say(job.row, job.file.name, why, "problem");
  const again = document.createElement("button");
  again.type = "button";
  again.textContent = "Try again";
  again.addEventListener("click", () => {
    waiting.push(job);
    say(job.row, job.file.name, "waits");
    next();
  });
  job.row.append(" ", again);
  active -= 1;
  next();
}

if (area) {
  area.hidden = false;
  takeDrops(area, add, (name, problem) => say(list.appendChild(document.createElement("li")), name, problem, "problem"));
  document.getElementById("upload-files").addEventListener("change", (event) => {
    for (const file of event.target.files) add(file);
    event.target.value = "";
  });
  window.addEventListener("beforeunload", (event) => {
    if (active) event.preventDefault();
  });
}
