// A page of a volume: its lines on the picture and their text in step, and keys to go on.
"use strict";

(() => {
  if (!document.getElementById("leaf")) return;

  const byId = (id) => document.getElementById(id);
  const lines = [...document.querySelectorAll("#lines > li")];
  const markOf = (line) => byId(line.id.replace("line", "mark"));
  // A page that failed early has none.
  const shown = byId("picture") && showPicture({ whole: true });

  // Lines and their places in step -------------------------------------------------------------

  function follow(element, partner) {
    const light = (on) => () => { for (const one of [element, partner]) one?.classList.toggle("lit", on); };
    for (const event of ["pointerenter", "focusin"]) element.addEventListener(event, light(true));
    for (const event of ["pointerleave", "focusout"]) element.addEventListener(event, light(false));
  }

  function keepInStep(line) {
    const mark = markOf(line), number = line.querySelector(".number");
    follow(line, mark);
    number.addEventListener("click", (event) => event.preventDefault());
    if (!mark) return;
    follow(mark, line);
    number.addEventListener("focus", () => shown.bringIntoView(mark));
    mark.addEventListener("click", (event) => {
      event.preventDefault();
      number.focus();
    });
  }

  function goToLine(step) {
    if (!lines.length) return;
    const here = lines.findIndex((line) => line.contains(document.activeElement));
    const next = here === -1 && step < 0 ? lines.length - 1 : (here + step + lines.length) % lines.length;
    lines[next].querySelector(".number").focus();
  }

  // Keys ---------------------------------------------------------------------------------------

  const ON = "pagewarden keys of volumes";
  const help = byId("help"), switched = byId("keys-on");
  const areOn = () => localStorage.getItem(ON) !== "off";
  const go = (id) => () => byId(id)?.click();
  const openHelp = () => { if (!help.open) help.showModal(); };
  const zoomIn = () => shown?.zoomBy(shown.STEP), zoomOut = () => shown?.zoomBy(1 / shown.STEP), fit = () => shown?.fit();

  const KEYS = {
    "n": go("after"), "p": go("before"), "f": go("failed"), "l": (event) => goToLine(event.shiftKey ? -1 : 1),
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

  function begin() {
    for (const [id, act] of Object.entries(BUTTONS)) {
      byId(id).hidden = id !== "help-open" && !shown;
      byId(id).addEventListener("click", act);
    }
    switched.checked = areOn();
    switched.addEventListener("change", () => localStorage.setItem(ON, switched.checked ? "on" : "off"));
    const { width, height } = byId("sheet").dataset;
    byId("view").style.setProperty("--ratio", width && height ? width / height : 1);
    lines.forEach(keepInStep);
    shown?.begin();
  }

  begin();
})();
