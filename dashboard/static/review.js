// The review of a page: picture and text in step, keys for everything, and nothing typed is lost.
"use strict";

(() => {
  const review = document.getElementById("review");
  if (!review) return;

  const byId = (id) => document.getElementById(id);
  const form = byId("text"), view = byId("view"), sheet = byId("sheet");
  const boxesSvg = byId("boxes"), whole = byId("whole");
  const rows = [...document.querySelectorAll("#lines li")];
  const fields = rows.map((row) => row.querySelector("textarea"));
  const boxes = boxesSvg ? [...boxesSvg.querySelectorAll("polygon")] : [];
  const isEditable = "editable" in review.dataset;
  const shown = showPicture({ came: fetchNext, clicked: goToPlace });
  const say = (words) => { byId("said").textContent = words; };

  // So that the next page has its picture at once.
  function fetchNext() {
    if (review.dataset.nextPicture) new Image().src = review.dataset.nextPicture;
  }

  // Picture and text in step -------------------------------------------------------------------

  const corners = (box) => [...box.points];

  function light(index, on) {
    rows[index]?.classList.toggle("lit", on);
    boxes[index]?.classList.toggle("lit", on);
  }

  function arriveAt(index) {
    for (const marked of document.querySelectorAll(".here")) marked.classList.remove("here");
    rows[index].classList.add("here");
    if (!boxes[index]) return;
    boxes[index].classList.add("here");
    shown.bringIntoView(boxes[index]);
  }

  function distance(box, point) {
    const xs = corners(box).map((corner) => corner.x), ys = corners(box).map((corner) => corner.y);
    const aside = Math.max(Math.min(...xs) - point.x, 0, point.x - Math.max(...xs));
    return Math.hypot(aside, Math.max(Math.min(...ys) - point.y, 0, point.y - Math.max(...ys)));
  }

  // How far along a line a point is, 0 to 1, whichever way the line runs.
  function share(box, point) {
    const [start, end] = corners(box);
    const [dx, dy] = [end.x - start.x, end.y - start.y];
    const along = ((point.x - start.x) * dx + (point.y - start.y) * dy) / (dx * dx + dy * dy || 1);
    return Math.min(Math.max(along, 0), 1);
  }

  function goToPlace(event) {
    if (!boxes.length || whole.disabled === false || !sheet.contains(event.target)) return;
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(boxesSvg.getScreenCTM().inverse());
    const distances = boxes.map((box) => distance(box, point));
    const index = distances.indexOf(Math.min(...distances));
    const field = fields[index];
    const along = share(boxes[index], point);
    const isBackwards = getComputedStyle(field).direction === "rtl";
    field.focus();
    const at = Math.round((isBackwards ? 1 - along : along) * field.value.length);
    field.setSelectionRange(at, at);
  }

  function keepInStep() {
    rows.forEach((row, index) => {
      row.addEventListener("pointerenter", () => light(index, true));
      row.addEventListener("pointerleave", () => light(index, false));
      fields[index].addEventListener("focus", () => arriveAt(index));
    });
    boxes.forEach((box, index) => {
      box.addEventListener("pointerenter", () => light(index, true));
      box.addEventListener("pointerleave", () => light(index, false));
    });
  }

  // From line to line ----------------------------------------------------------------------------

  const here = () => fields.indexOf(document.activeElement);

  function goTo(index) {
    const field = fields[index];
    if (!field) return;
    const at = fields[here()]?.selectionStart ?? 0;
    field.focus();
    field.setSelectionRange(at, at);
  }

  function goToUnsure(step) {
    if (!fields.length) return;
    let index = here() === -1 && step < 0 ? 0 : here();
    for (let count = 0; count < fields.length; count += 1) {
      index = (index + step + fields.length) % fields.length;
      if (!rows[index].classList.contains("sure")) return goTo(index);
    }
    say("No line is unsure.");
  }

  function switchPane() {
    if (view.contains(document.activeElement)) (lastField ?? fields[0] ?? whole).focus();
    else view.focus();
  }
  let lastField = null;
  form.addEventListener("focusin", (event) => { if (event.target.matches("input, textarea")) lastField = event.target; });

  // Undo: what the browser has ends at the line; this goes from line to line. ------------------

  const done = [], undone = [];
  let lastEdit = { index: -1, at: 0 };

  function noteEdit(event, index) {
    const field = fields[index];
    const goesOn = lastEdit.index === index && Date.now() - lastEdit.at < 1000 && event.data !== " " && event.inputType === "insertText";
    if (!goesOn) done.push({ index, value: field.value, at: field.selectionStart });
    lastEdit = { index, at: Date.now() };
    undone.length = 0;
  }

  function putBack(from, to) {
    const step = from.pop();
    if (!step) return;
    const field = fields[step.index];
    to.push({ index: step.index, value: field.value, at: field.selectionStart });
    field.value = step.value;
    field.focus();
    field.setSelectionRange(step.at, step.at);
    lastEdit = { index: -1, at: 0 };
    keepDraft();
  }

  // Lines, or one text -------------------------------------------------------------------------

  const isWhole = () => !whole.disabled;

  function joined(texts) {
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

  function showWhole(on) {
    whole.hidden = whole.disabled = !on;
    byId("lines").hidden = on;
    for (const field of fields) field.disabled = on;
    byId("mode").setAttribute("aria-pressed", String(on));
    (on ? whole : fields[0]).focus();
  }

  function switchMode() {
    if (!fields.length || !isEditable) return;
    if (!isWhole()) {
      whole.value = joined(fields.map((field) => field.value));
      showWhole(true);
      return whole.setSelectionRange(0, 0);
    }
    const lines = whole.value.split("\n").filter((line) => line.trim());
    if (lines.length !== fields.length) return say("The number of lines has changed. Save, and they are shown line by line again.");
    lines.forEach((line, index) => { fields[index].value = line; });
    showWhole(false);
  }

  // What was typed and not saved is kept in this browser ---------------------------------------

  const PREFIX = `pagewarden draft/${review.dataset.key}/`;
  const key = PREFIX + review.dataset.version;
  const typed = () => (isWhole() ? { text: whole.value } : { texts: fields.map((field) => field.value) });
  const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
  const asText = (draft) => draft.text ?? joined(draft.texts);
  const begun = typed();
  let waiting = null;

  function store(sent) {
    clearTimeout(waiting);
    waiting = null;
    const now = typed();
    try {
      if (same(now, begun) && !("refused" in review.dataset)) localStorage.removeItem(key);
      else localStorage.setItem(key, JSON.stringify({ ...now, sent, at: Date.now() }));
    } catch {
      say("What you type cannot be kept in this browser: save often.");
    }
  }

  function keepDraft() {
    waiting ??= setTimeout(() => store(false), 300);
  }

  function drafts() {
    const found = [];
    for (let index = 0; index < localStorage.length; index += 1) {
      const name = localStorage.key(index);
      if (name.startsWith(PREFIX)) found.push({ name, version: Number(name.slice(PREFIX.length)), ...JSON.parse(localStorage.getItem(name)) });
    }
    return found.sort((one, other) => one.at - other.at);
  }

  // Saved by us, or what the page says anyway.
  function isSettled(draft) {
    const wasSaved = draft.sent && "mine" in review.dataset && Number(review.dataset.version) === draft.version + 1;
    const fits = draft.text !== undefined || draft.texts.length === fields.length;
    return wasSaved || (fits && asText(draft).trim() === asText(begun).trim());
  }

  function takeDraft(draft) {
    if (draft.texts && draft.texts.length === fields.length) {
      draft.texts.forEach((text, index) => { fields[index].value = text; });
    } else {
      if (fields.length && !isWhole()) showWhole(true);
      whole.value = draft.text ?? draft.texts.join("\n");
    }
    if (draft.name !== key) localStorage.removeItem(draft.name);
    store(false);
    byId("draft").hidden = true;
    say("");
  }

  function dropDraft(draft) {
    localStorage.removeItem(draft.name);
    byId("draft").hidden = true;
  }

  function offerDraft() {
    if ("refused" in review.dataset) return; // then it is in the fields, and not saved yet
    const found = drafts();
    for (const settled of found.filter(isSettled)) localStorage.removeItem(settled.name);
    const draft = found.filter((each) => !isSettled(each)).at(-1);
    if (!draft) return;
    const older = draft.version === Number(review.dataset.version) ? "" : `, on top of version ${draft.version}`;
    byId("draft-said").textContent = `You typed something here and did not save it (${new Date(draft.at).toLocaleString()}${older}). It is kept in this browser. `;
    byId("draft").hidden = false;
    byId("draft-take").addEventListener("click", () => takeDraft(draft));
    byId("draft-drop").addEventListener("click", () => dropDraft(draft));
  }

  // Keys -----------------------------------------------------------------------------------------

  const press = (id) => () => { const button = byId(id); if (button) form.requestSubmit(button); };
  const follow = (id) => () => byId(id)?.click();
  const help = byId("help");
  const openHelp = () => { if (!help.open) help.showModal(); };

  const KEYS = {
    "F8": () => goToUnsure(1), "Shift+F8": () => goToUnsure(-1), "F6": switchPane, "F1": openHelp,
    "Ctrl+s": press("save"), "Ctrl+Enter": press("approve"), "Ctrl+Shift+Enter": press("approve-next"),
    "Alt+PageDown": follow("after"), "Alt+PageUp": follow("before"),
    "Alt+Equal": () => shown.zoomBy(shown.STEP), "Alt+NumpadAdd": () => shown.zoomBy(shown.STEP),
    "Alt+Minus": () => shown.zoomBy(1 / shown.STEP), "Alt+NumpadSubtract": () => shown.zoomBy(1 / shown.STEP),
    "Alt+Digit0": shown.fit, "Alt+Numpad0": shown.fit, "Alt+KeyR": shown.rotate, "Alt+KeyT": switchMode,
  };
  const KEYS_OF_LINES = {
    "Enter": () => goTo(here() + 1), "ArrowDown": () => goTo(here() + 1),
    "Shift+Enter": () => goTo(here() - 1), "ArrowUp": () => goTo(here() - 1),
    "Ctrl+z": () => putBack(done, undone), "Ctrl+Shift+z": () => putBack(undone, done), "Ctrl+y": () => putBack(undone, done),
  };

  // With Alt some keyboards write other signs, so there the place of the key counts.
  function nameOf(event) {
    if (event.altKey) return `Alt+${event.code}`;
    const letter = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    return (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + (event.shiftKey ? "Shift+" : "") + letter;
  }

  document.addEventListener("keydown", (event) => {
    if (event.isComposing || help.open) return;
    const name = nameOf(event), isTyping = event.target.matches("input, textarea, select");
    let act = KEYS[name];
    if (!act && here() !== -1) act = KEYS_OF_LINES[name];
    if (!act && !isTyping && event.key === "?") act = openHelp;
    if (!act) return;
    event.preventDefault();
    say("");
    act();
  });

  const BUTTONS = {
    "zoom-in": () => shown.zoomBy(shown.STEP), "zoom-out": () => shown.zoomBy(1 / shown.STEP), "fit": shown.fit, "rotate": shown.rotate,
    "unsure": () => goToUnsure(1), "undo": () => putBack(done, undone), "mode": switchMode, "help-open": openHelp,
  };

  function begin() {
    for (const [id, act] of Object.entries(BUTTONS)) byId(id)?.addEventListener("click", act);
    shown.begin();
    keepInStep();
    if (!isEditable) return;
    fields.forEach((field, index) => field.addEventListener("beforeinput", (event) => noteEdit(event, index)));
    form.addEventListener("input", keepDraft);
    form.addEventListener("submit", () => store(true));
    window.addEventListener("pagehide", () => { if (waiting) store(false); });
    offerDraft();
    const first = rows.findIndex((row) => !row.classList.contains("sure"));
    if (fields.length) fields[Math.max(first, 0)].focus();
    else { whole.focus(); whole.setSelectionRange(0, 0); }
  }

  begin();
})();
