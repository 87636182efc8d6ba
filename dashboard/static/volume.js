// One page of a volume: lines and their marks highlight each other; keyboard shortcuts.
"use strict";

(() => {
  if (!document.getElementById("volume-page")) return;

  const byId = (id) => document.getElementById(id);
  const lines = [...document.querySelectorAll("#lines > li")];
  const findMark = (line) => byId(line.id.replace("line", "mark"));
  // A page that failed in line detection has no picture.
  const viewer = byId("picture") && createViewer({ fitWhole: true });

  // Lines and marks ----------------------------------------------------------------------------

  function linkHighlights(element, partner) {
    const highlight = (on) => () => { for (const one of [element, partner]) one?.classList.toggle("highlighted", on); };
    for (const event of ["pointerenter", "focusin"]) element.addEventListener(event, highlight(true));
    for (const event of ["pointerleave", "focusout"]) element.addEventListener(event, highlight(false));
  }

  function linkToMark(line) {
    const mark = findMark(line), number = line.querySelector(".number");
    linkHighlights(line, mark);
    number.addEventListener("click", (event) => event.preventDefault());
    if (!mark) return;
    linkHighlights(mark, line);
    number.addEventListener("focus", () => viewer.scrollTo(mark));
    mark.addEventListener("click", (event) => {
      event.preventDefault();
      number.focus();
    });
  }

  function goToLine(step) {
    if (!lines.length) return;
    const current = lines.findIndex((line) => line.contains(document.activeElement));
    const next = current === -1 && step < 0 ? lines.length - 1 : (current + step + lines.length) % lines.length;
    lines[next].querySelector(".number").focus();
  }

  // Keys ---------------------------------------------------------------------------------------

  const ON = "pagewarden keys of volumes";
  const help = byId("help"), keysSwitch = byId("keys-on");
  const areOn = () => localStorage.getItem(ON) !== "off";
  const follow = (id) => () => byId(id)?.click();
  const openHelp = () => { if (!help.open) help.showModal(); };
  const zoomIn = () => viewer?.zoomBy(viewer.STEP), zoomOut = () => viewer?.zoomBy(1 / viewer.STEP), fit = () => viewer?.fit();

  const KEYS = {
    "n": follow("after"), "p": follow("before"), "f": follow("failed"), "l": (event) => goToLine(event.shiftKey ? -1 : 1),
    "+": zoomIn, "=": zoomIn, "-": zoomOut, "0": fit, "?": openHelp,
  };

  document.addEventListener("keydown", (event) => {
    if (event.repeat || event.isComposing || event.ctrlKey || event.altKey || event.metaKey || help.open || !areOn()) return;
    const act = KEYS[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act(event);
  });

  const BUTTONS = { "zoom-in": zoomIn, "zoom-out": zoomOut, "fit": fit, "help-open": openHelp };

  function start() {
    for (const [id, act] of Object.entries(BUTTONS)) {
      byId(id).hidden = id !== "help-open" && !viewer;
      byId(id).addEventListener("click", act);
    }
    keysSwitch.checked = areOn();
    keysSwitch.addEventListener("change", () => localStorage.setItem(ON, keysSwitch.checked ? "on" : "off"));
    const { width, height } = byId("layer").dataset;
    byId("view").style.setProperty("--ratio", width && height ? width / height : 1);
    lines.forEach(linkToMark);
    viewer?.start();
  }

  start();
})();
