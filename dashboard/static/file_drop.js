// Drag and drop of files and folders anywhere on the page.
"use strict";

// Add a dropped file with its path, or all files of a dropped folder.
async function addEntry(entry, add) {
  if (entry.isFile) {
    add(await new Promise((resolve, reject) => entry.file(resolve, reject)), entry.fullPath.replace(/^\//, ""));
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!batch.length) return;
    for (const child of batch) await addEntry(child, add);
  }
}

// Call add(file, path) for each dropped file, and onError(name, message) for an entry that cannot be read.
function acceptDrops(area, add, onError) {
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    area.classList.add("dragover");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) area.classList.remove("dragover");
  });
  document.addEventListener("drop", async (event) => {
    event.preventDefault();
    area.classList.remove("dragover");
    // Collected before the first await: the browser clears the items afterwards.
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
    if (!entries.length) for (const file of event.dataTransfer.files) add(file, file.name);
    for (const entry of entries) {
      try {
        await addEntry(entry, add);
      } catch (error) {
        onError(entry.name, String(error));
      }
    }
  });
}
