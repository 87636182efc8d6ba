// One picture of a check job: issues and their marks highlight each other; keyboard shortcuts.
"use strict";

(() => {
  const check = document.getElementById("check");
  if (!check) return;

  const byId = (id) => document.getElementById(id);
  const marks = [...document.querySelectorAll("#marks .mark")];
  const issues = [...document.querySelectorAll(".issues > li")];

  const viewer = createViewer({
    fitWhole: true,
    onReady: prefetchNext,
    // Keeps the numbers of the marks at one size, whatever the zoom.
    onLayout: (zoom) => byId("marks")?.style.setProperty("--pixel", 1 / zoom),
  });

  function prefetchNext() {
    if (check.dataset.nextPicture) new Image().src = check.dataset.nextPicture;
  }

  // Issues and marks ---------------------------------------------------------------------------

  const findMark = (issue) => (issue.dataset.mark ? byId(issue.dataset.mark) : null);
  const findIssues = (mark) => mark.dataset.issues.split(" ").map((number) => byId(`issue-${number}`));

  function highlight(elements, on) {
    for (const element of elements) element?.classList.toggle("highlighted", on);
  }

  function linkHighlights(element, partners) {
    for (const event of ["pointerenter", "focusin"]) element.addEventListener(event, () => highlight([element, ...partners], true));
    for (const event of ["pointerleave", "focusout"]) element.addEventListener(event, () => highlight([element, ...partners], false));
  }

  function linkIssuesAndMarks() {
    for (const mark of marks) {
      const markIssues = findIssues(mark);
      linkHighlights(mark, markIssues);
      mark.addEventListener("focus", () => markIssues[0].scrollIntoView({ block: "nearest" }));
      mark.addEventListener("click", (event) => {
        event.preventDefault();
        markIssues[0].querySelector(".number").focus();
      });
    }
    for (const issue of issues) {
      const mark = findMark(issue);
      linkHighlights(issue, [mark]);
      if (!mark) continue;
      const number = issue.querySelector(".number");
      number.addEventListener("focus", () => viewer.scrollTo(mark));
      number.addEventListener("click", (event) => {
        event.preventDefault();
        viewer.scrollTo(mark);
      });
    }
  }

  function goToIssue(step) {
    const numbers = issues.map((issue) => issue.querySelector(".number"));
    const current = numbers.indexOf(document.activeElement);
    if (!numbers.length) return;
    const next = numbers[current === -1 && step < 0 ? numbers.length - 1 : (current + step + numbers.length) % numbers.length];
    next.tabIndex = 0; // an issue without a mark is not a link
    next.focus();
  }

  // Keys -----------------------------------------------------------------------------------------

  const ON = "pagewarden keys of checks";
  const help = byId("help"), keysSwitch = byId("keys-on");
  const areOn = () => localStorage.getItem(ON) !== "off";
  // Ignored until the picture has loaded: the key may have been meant for the one before.
  const submitWith = (id) => () => { const button = byId(id); if (button && byId("picture").complete) button.form.requestSubmit(button); };
  const follow = (id) => () => byId(id)?.click();
  const openHelp = () => { if (!help.open) help.showModal(); };
  const zoomIn = () => viewer.zoomBy(viewer.STEP), zoomOut = () => viewer.zoomBy(1 / viewer.STEP);

  const KEYS = {
    "a": submitWith("accept"), "r": submitWith("reject"), "u": submitWith("undecide"), "n": follow("after"), "p": follow("before"),
    "i": (event) => goToIssue(event.shiftKey ? -1 : 1), "?": openHelp,
    "+": zoomIn, "=": zoomIn, "-": zoomOut, "0": viewer.fit,
  };

  document.addEventListener("keydown", (event) => {
    if (event.repeat || event.isComposing || event.ctrlKey || event.altKey || event.metaKey || help.open || !areOn()) return;
    const act = KEYS[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act(event);
  });

  const BUTTONS = { "zoom-in": zoomIn, "zoom-out": zoomOut, "fit": viewer.fit, "help-open": openHelp };

  function start() {
    for (const [id, act] of Object.entries(BUTTONS)) {
      byId(id).hidden = false;
      byId(id).addEventListener("click", act);
    }
    keysSwitch.checked = areOn();
    keysSwitch.addEventListener("change", () => localStorage.setItem(ON, keysSwitch.checked ? "on" : "off"));
    const { width, height } = byId("layer").dataset;
    byId("view").style.setProperty("--ratio", width && height ? width / height : 1);
    linkIssuesAndMarks();
    viewer.start();
  }

  start();
})();
