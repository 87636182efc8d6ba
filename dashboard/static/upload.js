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

async function upload(job) {
  const { file, row } = job;
  const options = new URLSearchParams(new FormData(document.getElementById("upload-options")));
  for (const [key, value] of [...options]) if (!value) options.delete(key);
  const bar = document.createElement("progress");
  bar.max = file.size || 1;
  bar.value = 0;
  bar.setAttribute("aria-label", `Upload of ${file.name}`);
  setStatus(row, file.name, "uploading");
  row.append(" ", bar);
  const isLarge = file.size > Number(area.dataset.maxDirect);
  try {
    row.innerHTML = await (isLarge ? uploadToAddress : uploadDirectly)(file, options, (sent) => { bar.value = sent; });
    window.htmx?.process(row);
  } catch (error) {
    showFailure(job, error.message);
  }
  active -= 1;
  startNext();
}

function uploadDirectly(file, options, onProgress) {
  const headers = { "X-File-Name": encodeURIComponent(file.name), "Content-Type": "application/octet-stream" };
  return send("POST", `${area.dataset.target}?${options}`, { ...ownHeaders(), ...headers }, file, onProgress);
}

// A file that is too large for one request is sent to a signed address; the server then checks it.
async function uploadToAddress(file, options, onProgress) {
  const wanted = { ...Object.fromEntries(options), name: file.name, size: file.size, sha256: await hashFile(file) };
  const headers = { ...ownHeaders(), "Content-Type": "application/json" };
  const signed = JSON.parse(await send("POST", `${area.dataset.target}/uploads`, headers, JSON.stringify(wanted)));
  await send(signed.method, signed.url, signed.headers, file, onProgress);
  return send("POST", signed.confirm_url, ownHeaders(), null);
}

function ownHeaders() {
  return { "X-CSRF-Token": document.querySelector("meta[name=csrf]").content, Accept: "application/json" };
}

// Send a request and return the text of its response; unlike fetch, XMLHttpRequest reports the progress.
function send(method, url, headers, body, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    if (onProgress) request.upload.onprogress = (event) => onProgress(event.loaded);
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) resolve(request.responseText);
      else reject(new Error(errorMessage(request)));
    };
    request.onerror = () => reject(new Error("The connection was interrupted."));
    request.open(method, url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.send(body);
  });
}

function errorMessage(request) {
  try {
    return JSON.parse(request.responseText).message;
  } catch {
    return `The server responded with status ${request.status}.`;
  }
}

function showFailure(job, reason) {
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
