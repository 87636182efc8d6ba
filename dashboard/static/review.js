// Review of a page: lines and their boxes highlight each other; undo, drafts, keyboard shortcuts.
"use strict";

(() => {
  const review = document.getElementById("review");
  if (!review) return;

  const byId = (id) => document.getElementById(id);
  const form = byId("text"), view = byId("view"), layer = byId("layer");
  const boxesSvg = byId("boxes"), plainText = byId("plain-text");
  const rows = [...document.querySelectorAll("#lines li")];
  const fields = rows.map((row) => row.querySelector("textarea"));
  const boxes = boxesSvg ? [...boxesSvg.querySelectorAll("polygon")] : [];
  const isEditable = "editable" in review.dataset;
  const viewer = createViewer({ onReady: prefetchNext, onClick: focusClickedLine });
  const showMessage = (text) => { byId("message").textContent = text; };

  function prefetchNext() {
    if (review.dataset.nextPicture) new Image().src = review.dataset.nextPicture;
  }

  // Lines and boxes ----------------------------------------------------------------------------

  const corners = (box) => [...box.points];

  function highlight(index, on) {
    rows[index]?.classList.toggle("highlighted", on);
    boxes[index]?.classList.toggle("highlighted", on);
  }

  function markCurrent(index) {
    for (const previous of document.querySelectorAll(".current")) previous.classList.remove("current");
    rows[index].classList.add("current");
    if (!boxes[index]) return;
    boxes[index].classList.add("current");
    viewer.scrollTo(boxes[index]);
  }

  function distance(box, point) {
    const xs = corners(box).map((corner) => corner.x), ys = corners(box).map((corner) => corner.y);
    const dx = Math.max(Math.min(...xs) - point.x, 0, point.x - Math.max(...xs));
    return Math.hypot(dx, Math.max(Math.min(...ys) - point.y, 0, point.y - Math.max(...ys)));
  }

  // The position of a point along a line, 0 to 1, for lines of any angle.
  function relativePosition(box, point) {
    const [start, end] = corners(box);
    const [dx, dy] = [end.x - start.x, end.y - start.y];
    const along = ((point.x - start.x) * dx + (point.y - start.y) * dy) / (dx * dx + dy * dy || 1);
    return Math.min(Math.max(along, 0), 1);
  }

  function focusClickedLine(event) {
    if (!boxes.length || isPlainText() || !layer.contains(event.target)) return;
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(boxesSvg.getScreenCTM().inverse());
    const distances = boxes.map((box) => distance(box, point));
    const index = distances.indexOf(Math.min(...distances));
    const field = fields[index];
    const along = relativePosition(boxes[index], point);
    const isRightToLeft = getComputedStyle(field).direction === "rtl";
    field.focus();
    const caret = Math.round((isRightToLeft ? 1 - along : along) * field.value.length);
    field.setSelectionRange(caret, caret);
  }

  function linkLinesAndBoxes() {
    rows.forEach((row, index) => {
      row.addEventListener("pointerenter", () => highlight(index, true));
      row.addEventListener("pointerleave", () => highlight(index, false));
      fields[index].addEventListener("focus", () => markCurrent(index));
    });
    boxes.forEach((box, index) => {
      box.addEventListener("pointerenter", () => highlight(index, true));
      box.addEventListener("pointerleave", () => highlight(index, false));
    });
  }

  // Moving between lines -------------------------------------------------------------------------

  const currentIndex = () => fields.indexOf(document.activeElement);

  function focusLine(index) {
    const field = fields[index];
    if (!field) return;
    const at = fields[currentIndex()]?.selectionStart ?? 0;
    field.focus();
    field.setSelectionRange(at, at);
  }

  function focusUnsureLine(step) {
    if (!fields.length) return;
    let index = currentIndex() === -1 && step < 0 ? 0 : currentIndex();
    for (let count = 0; count < fields.length; count += 1) {
      index = (index + step + fields.length) % fields.length;
      if (!rows[index].classList.contains("sure")) return focusLine(index);
    }
    showMessage("There are no uncertain lines.");
  }

  function switchPane() {
    if (view.contains(document.activeElement)) (lastField ?? fields[0] ?? plainText).focus();
    else view.focus();
  }
  let lastField = null;
  form.addEventListener("focusin", (event) => { if (event.target.matches("input, textarea")) lastField = event.target; });

  // Undo across lines, which the undo of browsers does not do -----------------------------------

  const undoStack = [], redoStack = [];
  let lastEdit = { index: -1, at: 0 };

  function recordEdit(event, index) {
    const field = fields[index];
    const continuesEdit = lastEdit.index === index && Date.now() - lastEdit.at < 1000 && event.data !== " " && event.inputType === "insertText";
    if (!continuesEdit) undoStack.push({ index, value: field.value, at: field.selectionStart });
    lastEdit = { index, at: Date.now() };
    redoStack.length = 0;
  }

  function restoreEdit(from, to) {
    const step = from.pop();
    if (!step) return;
    const field = fields[step.index];
    to.push({ index: step.index, value: field.value, at: field.selectionStart });
    field.value = step.value;
    field.focus();
    field.setSelectionRange(step.at, step.at);
    lastEdit = { index: -1, at: 0 };
    scheduleDraft();
  }

  // Lines or plain text ------------------------------------------------------------------------

  const isPlainText = () => !plainText.disabled;

  function joinLines(texts) {
    const blocks = byId("blocks").value.split(",");
    let text = "", last = null;
    texts.forEach((line, index) => {
      if (!line.trim()) return;
      if (last !== null) text += last === blocks[index] ? "\n" : "\n\n";
      text += line;
      last = blocks[index];
    });
    return text;
  }

  function showPlainText(on) {
    plainText.hidden = plainText.disabled = !on;
    byId("lines").hidden = on;
    for (const field of fields) field.disabled = on;
    byId("mode").setAttribute("aria-pressed", String(on));
    (on ? plainText : fields[0]).focus();
  }

  function switchMode() {
    if (!fields.length || !isEditable) return;
    if (!isPlainText()) {
      plainText.value = joinLines(fields.map((field) => field.value));
      showPlainText(true);
      return plainText.setSelectionRange(0, 0);
    }
    const lines = plainText.value.split("\n").filter((line) => line.trim());
    if (lines.length !== fields.length) return showMessage("The number of lines has changed. Save the page to see it line by line again.");
    lines.forEach((line, index) => { fields[index].value = line; });
    showPlainText(false);
  }

  // Drafts: unsaved text stays in this browser -------------------------------------------------

  const PREFIX = `pagewarden draft/${review.dataset.key}/`;
  const key = PREFIX + review.dataset.version;
  const currentText = () => (isPlainText() ? { text: plainText.value } : { texts: fields.map((field) => field.value) });
  const areEqual = (one, other) => JSON.stringify(one) === JSON.stringify(other);
  const asText = (draft) => draft.text ?? joinLines(draft.texts);
  const initial = currentText();
  let timer = null;

  function saveDraft(sent) {
    clearTimeout(timer);
    timer = null;
    const now = currentText();
    try {
      if (areEqual(now, initial) && !("refused" in review.dataset)) localStorage.removeItem(key);
      else localStorage.setItem(key, JSON.stringify({ ...now, sent, at: Date.now() }));
    } catch {
      showMessage("This browser cannot keep a draft of your text. Save often.");
    }
  }

  function scheduleDraft() {
    timer ??= setTimeout(() => saveDraft(false), 300);
  }

  function findDrafts() {
    const found = [];
    for (let index = 0; index < localStorage.length; index += 1) {
      const name = localStorage.key(index);
      if (name.startsWith(PREFIX)) found.push({ name, version: Number(name.slice(PREFIX.length)), ...JSON.parse(localStorage.getItem(name)) });
    }
    return found.sort((one, other) => one.at - other.at);
  }

  // Saved since, or the same as the text of the page.
  function isObsolete(draft) {
    const wasSaved = draft.sent && "mine" in review.dataset && Number(review.dataset.version) === draft.version + 1;
    const fits = draft.text !== undefined || draft.texts.length === fields.length;
    return wasSaved || (fits && asText(draft).trim() === asText(initial).trim());
  }

  function restoreDraft(draft) {
    if (draft.texts && draft.texts.length === fields.length) {
      draft.texts.forEach((text, index) => { fields[index].value = text; });
    } else {
      if (fields.length && !isPlainText()) showPlainText(true);
      plainText.value = draft.text ?? draft.texts.join("\n");
    }
    if (draft.name !== key) localStorage.removeItem(draft.name);
    saveDraft(false);
    byId("draft").hidden = true;
    showMessage("");
  }

  function discardDraft(draft) {
    localStorage.removeItem(draft.name);
    byId("draft").hidden = true;
  }

  function offerDraft() {
    if ("refused" in review.dataset) return; // the fields already hold the unsaved text
    const found = findDrafts();
    for (const obsolete of found.filter(isObsolete)) localStorage.removeItem(obsolete.name);
    const draft = found.filter((each) => !isObsolete(each)).at(-1);
    if (!draft) return;
    const base = draft.version === Number(review.dataset.version) ? "" : `, based on version ${draft.version}`;
    byId("draft-message").textContent = `You have unsaved text for this page from ${new Date(draft.at).toLocaleString()}${base}. `;
    byId("draft").hidden = false;
    byId("draft-restore").addEventListener("click", () => restoreDraft(draft));
    byId("draft-discard").addEventListener("click", () => discardDraft(draft));
  }

  // Keys -----------------------------------------------------------------------------------------

  const submitWith = (id) => () => { const button = byId(id); if (button) form.requestSubmit(button); };
  const follow = (id) => () => byId(id)?.click();
  const help = byId("help");
  const openHelp = () => { if (!help.open) help.showModal(); };

  const KEYS = {
    "F8": () => focusUnsureLine(1), "Shift+F8": () => focusUnsureLine(-1), "F6": switchPane, "F1": openHelp,
    "Ctrl+s": submitWith("save"), "Ctrl+Enter": submitWith("approve"), "Ctrl+Shift+Enter": submitWith("approve-next"),
    "Alt+PageDown": follow("after"), "Alt+PageUp": follow("before"),
    "Alt+Equal": () => viewer.zoomBy(viewer.STEP), "Alt+NumpadAdd": () => viewer.zoomBy(viewer.STEP),
    "Alt+Minus": () => viewer.zoomBy(1 / viewer.STEP), "Alt+NumpadSubtract": () => viewer.zoomBy(1 / viewer.STEP),
    "Alt+Digit0": viewer.fit, "Alt+Numpad0": viewer.fit, "Alt+KeyR": viewer.rotate, "Alt+KeyT": switchMode,
  };
  const LINE_KEYS = {
    "Enter": () => focusLine(currentIndex() + 1), "ArrowDown": () => focusLine(currentIndex() + 1),
    "Shift+Enter": () => focusLine(currentIndex() - 1), "ArrowUp": () => focusLine(currentIndex() - 1),
    "Ctrl+z": () => restoreEdit(undoStack, redoStack), "Ctrl+Shift+z": () => restoreEdit(redoStack, undoStack), "Ctrl+y": () => restoreEdit(redoStack, undoStack),
  };

  // With Alt, some keyboard layouts produce other characters: use the position of the key.
  function keyName(event) {
    if (event.altKey) return `Alt+${event.code}`;
    const letter = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    return (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + (event.shiftKey ? "Shift+" : "") + letter;
  }

  document.addEventListener("keydown", (event) => {
    if (event.isComposing || help.open) return;
    const name = keyName(event), isTyping = event.target.matches("input, textarea, select");
    let act = KEYS[name];
    if (!act && currentIndex() !== -1) act = LINE_KEYS[name];
    if (!act && !isTyping && event.key === "?") act = openHelp;
    if (!act) return;
    event.preventDefault();
    showMessage("");
    act();
  });

  const BUTTONS = {
    "zoom-in": () => viewer.zoomBy(viewer.STEP), "zoom-out": () => viewer.zoomBy(1 / viewer.STEP), "fit": viewer.fit, "rotate": viewer.rotate,
    "unsure": () => focusUnsureLine(1), "undo": () => restoreEdit(undoStack, redoStack), "mode": switchMode, "help-open": openHelp,
  };

  function start() {
    for (const [id, act] of Object.entries(BUTTONS)) byId(id)?.addEventListener("click", act);
    viewer.start();
    linkLinesAndBoxes();
    if (!isEditable) return;
    fields.forEach((field, index) => field.addEventListener("beforeinput", (event) => recordEdit(event, index)));
    form.addEventListener("input", scheduleDraft);
    form.addEventListener("submit", () => saveDraft(true));
    window.addEventListener("pagehide", () => { if (timer) saveDraft(false); });
    offerDraft();
    const first = rows.findIndex((row) => !row.classList.contains("sure"));
    if (fields.length) fields[Math.max(first, 0)].focus();
    else { plainText.focus(); plainText.setSelectionRange(0, 0); }
  }

  start();
})();
