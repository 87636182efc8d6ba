// A picture of a check: its issues and their places in step, and keys to decide.
"use strict";

(() => {
  const check = document.getElementById("check");
  if (!check) return;

  const byId = (id) => document.getElementById(id);
  const marks = [...document.querySelectorAll("#marks .mark")];
  const issues = [...document.querySelectorAll(".issues > li")];

  const shown = showPicture({
    whole: true,
    came: fetchNext,
    // Numbers are as large on every picture.
    laid: (zoom) => byId("marks")?.style.setProperty("--pixel", 1 / zoom),
  });

  // So that the next one is there at once.
  function fetchNext() {
    if (check.dataset.nextPicture) new Image().src = check.dataset.nextPicture;
  }

  // Issues and their places in step ------------------------------------------------------------

  const markOf = (issue) => (issue.dataset.mark ? byId(issue.dataset.mark) : null);
  const issuesOf = (mark) => mark.dataset.issues.split(" ").map((number) => byId(`issue-${number}`));

  function light(elements, on) {
    for (const one of elements) one?.classList.toggle("lit", on);
  }

  function follow(element, partners) {
    for (const event of ["pointerenter", "focusin"]) element.addEventListener(event, () => light([element, ...partners], true));
    for (const event of ["pointerleave", "focusout"]) element.addEventListener(event, () => light([element, ...partners], false));
  }

  function keepInStep() {
    for (const mark of marks) {
      const said = issuesOf(mark);
      follow(mark, said);
      mark.addEventListener("focus", () => said[0].scrollIntoView({ block: "nearest" }));
      mark.addEventListener("click", (event) => {
        event.preventDefault();
        said[0].querySelector(".number").focus();
      });
    }
    for (const issue of issues) {
      const mark = markOf(issue);
      follow(issue, [mark]);
      if (!mark) continue;
      const number = issue.querySelector(".number");
      number.addEventListener("focus", () => shown.bringIntoView(mark));
      number.addEventListener("click", (event) => {
        event.preventDefault();
        shown.bringIntoView(mark);
      });
    }
  }

  function goToIssue(step) {
    const numbers = issues.map((issue) => issue.querySelector(".number"));
    const here = numbers.indexOf(document.activeElement);
    if (!numbers.length) return;
    const next = numbers[here === -1 && step < 0 ? numbers.length - 1 : (here + step + numbers.length) % numbers.length];
    next.tabIndex = 0; // one without a place is no link
    next.focus();
  }

  // Keys -----------------------------------------------------------------------------------------

  const ON = "pagewarden keys of checks";
  const help = byId("help"), switched = byId("keys-on");
  const areOn = () => localStorage.getItem(ON) !== "off";
  // A key that was meant for the picture before decides nothing about one that has not come yet.
  const press = (id) => () => { const button = byId(id); if (button && byId("picture").complete) button.form.requestSubmit(button); };
  const go = (id) => () => byId(id)?.click();
  const openHelp = () => { if (!help.open) help.showModal(); };
  const zoomIn = () => shown.zoomBy(shown.STEP), zoomOut = () => shown.zoomBy(1 / shown.STEP);

  const KEYS = {
    "a": press("accept"), "r": press("reject"), "u": press("undecide"), "n": go("after"), "p": go("before"),
    "i": (event) => goToIssue(event.shiftKey ? -1 : 1), "?": openHelp,
    "+": zoomIn, "=": zoomIn, "-": zoomOut, "0": shown.fit,
  };

  document.addEventListener("keydown", (event) => {
    if (event.repeat || event.isComposing || event.ctrlKey || event.altKey || event.metaKey || help.open || !areOn()) return;
    const act = KEYS[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act(event);
  });

  const BUTTONS = { "zoom-in": zoomIn, "zoom-out": zoomOut, "fit": shown.fit, "help-open": openHelp };

  function begin() {
    for (const [id, act] of Object.entries(BUTTONS)) {
      byId(id).hidden = false;
      byId(id).addEventListener("click", act);
    }
    switched.checked = areOn();
    switched.addEventListener("change", () => localStorage.setItem(ON, switched.checked ? "on" : "off"));
    const { width, height } = byId("sheet").dataset;
    byId("view").style.setProperty("--ratio", width && height ? width / height : 1);
    keepInStep();
    shown.begin();
  }

  begin();
})();
