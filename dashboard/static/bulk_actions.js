// Selecting rows for bulk actions, previews that cannot be rendered, and drafts of typed text.
"use strict";

function checkboxes(form) {
  return [...form.querySelectorAll("input[type=checkbox][name=id]")];
}

function updateSelection(form, isSelectAll) {
  const all = form.querySelector("[data-select-all]");
  if (!all) return;
  if (isSelectAll) for (const checkbox of checkboxes(form)) checkbox.checked = all.checked;
  const count = checkboxes(form).filter((checkbox) => checkbox.checked).length;
  all.checked = count > 0 && count === checkboxes(form).length;
  all.indeterminate = count > 0 && !all.checked;
  form.querySelector(".selected-count").textContent = count ? `${count} selected` : "";
}

document.addEventListener("change", (event) => {
  const form = event.target.closest("form.selection");
  if (form && event.target.type === "checkbox") updateSelection(form, "selectAll" in event.target.dataset);
});
// Checkboxes may have been ticked before this script was loaded.
for (const form of document.querySelectorAll("form.selection")) {
  updateSelection(form, form.querySelector("[data-select-all]")?.checked);
}

function replaceByCaption(image) {
  image.hidden = true;
  image.nextElementSibling.hidden = false;
}
// Errors of images do not bubble, but they can be captured.
document.addEventListener("error", (event) => {
  if (event.target.matches?.(".preview img")) replaceByCaption(event.target);
}, true);
for (const image of document.querySelectorAll(".preview img")) {
  if (image.complete && !image.naturalWidth) replaceByCaption(image);
}

// Drafts stay in the tab until the server has saved the text: sessions expire, browsers reload.
const draftForm = document.querySelector("form[data-draft]");
if (draftForm) {
  const key = draftForm.dataset.draft;
  const fields = [...draftForm.querySelectorAll("textarea")];
  const isEdited = (field) => field.value !== field.defaultValue;
  const saveDraft = () => {
    const edited = fields.filter(isEdited);
    try {
      sessionStorage.setItem(key, JSON.stringify(Object.fromEntries(edited.map((field) => [field.name, field.value]))));
    } catch {
      document.getElementById("notice").textContent = "The text is too long to be kept in this browser. Submit it soon.";
    }
  };
  const draft = JSON.parse(sessionStorage.getItem(key) ?? "null");
  if (fields.some(isEdited)) {
    saveDraft();
  } else if (draft && !("rejected" in draftForm.dataset)) {
    for (const field of fields) field.value = draft[field.name] ?? field.value;
    document.getElementById("draft").hidden = false;
  }
  draftForm.addEventListener("input", saveDraft);
}
for (const element of document.querySelectorAll("[data-clear-draft]")) {
  sessionStorage.removeItem(element.dataset.clearDraft);
}
