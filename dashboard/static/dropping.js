// Files and folders dropped anywhere on the page, one by one, each with its path.
"use strict";

// A folder that is dropped brings all its files.
async function takeEntry(entry, add) {
  if (entry.isFile) {
    add(await new Promise((found, lost) => entry.file(found, lost)), entry.fullPath.replace(/^\//, ""));
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((found, lost) => reader.readEntries(found, lost));
    if (!some.length) return;
    for (const child of some) await takeEntry(child, add);
  }
}

// add(file, path) is called for each file, lost(name, problem) for what cannot be had.
function takeDrops(area, add, lost) {
  document.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    area.classList.add("over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) area.classList.remove("over");
  });
  document.addEventListener("drop", async (event) => {
    event.preventDefault();
    area.classList.remove("over");
    // Taken at once: after the first wait the browser has forgotten them.
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
    if (!entries.length) for (const file of event.dataTransfer.files) add(file, file.name);
    for (const entry of entries) {
      try {
        await takeEntry(entry, add);
      } catch (problem) {
        lost(entry.name, String(problem));
      }
    }
  });
}
