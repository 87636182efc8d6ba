// Choosing many at once, pictures that are missing, and text that must not get lost.
"use strict";

function ticks(form) {
  return [...form.querySelectorAll("input[type=checkbox][name=id]")];
}

function updateSelection(form, isAllChanged) {
  const all = form.querySelector("[data-tick-all]");
  if (!all) return;
  if (isAllChanged) for (const tick of ticks(form)) tick.checked = all.checked;
  const chosen = ticks(form).filter((tick) => tick.checked).length;
  all.checked = chosen > 0 && chosen === ticks(form).length;
  all.indeterminate = chosen > 0 && !all.checked;
  form.querySelector(".ticked").textContent = chosen ? `${chosen} chosen` : "";
}

document.addEventListener("change", (event) => {
  const form = event.target.closest("form.selection");
  if (form && event.target.type === "checkbox") updateSelection(form, "tickAll" in event.target.dataset);
});
// Boxes may have been ticked before this script was loaded.
for (const form of document.querySelectorAll("form.selection")) {
  updateSelection(form, form.querySelector("[data-tick-all]")?.checked);
}

// Errors of images do not bubble, but they can be caught on their way down.
function withoutPicture(image) {
  image.hidden = true;
  image.nextElementSibling.hidden = false;
}
document.addEventListener("error", (event) => {
  if (event.target.matches?.(".preview img")) withoutPicture(event.target);
}, true);
for (const image of document.querySelectorAll(".preview img")) {
  if (image.complete && !image.naturalWidth) withoutPicture(image);
}

// What is typed is kept in this tab until the server has it: sessions end, browsers reload.
const typing = document.querySelector("form[data-draft]");
if (typing) {
  const key = typing.dataset.draft;
  const fields = [...typing.querySelectorAll("textarea")];
  const keep = () => {
    const changed = fields.filter((field) => field.value !== field.defaultValue);
    try {
      sessionStorage.setItem(key, JSON.stringify(Object.fromEntries(changed.map((f) => [f.name, f.value]))));
    } catch {
      document.getElementById("notice").textContent = "This is too much for the browser to keep: send it soon.";
    }
  };
  const draft = JSON.parse(sessionStorage.getItem(key) ?? "null");
  const hasBegun = fields.some((field) => field.value !== field.defaultValue);
  if (draft && !hasBegun && !("sentBack" in typing.dataset)) {
    for (const field of fields) field.value = draft[field.name] ?? field.value;
    document.getElementById("draft").hidden = false;
  } else if (hasBegun) {
    keep();
  }
  typing.addEventListener("input", keep);
}
for (const done of document.querySelectorAll("[data-forget-draft]")) {
  sessionStorage.removeItem(done.dataset.forgetDraft);
}
