// A picture in its frame: fitted, zoomed, turned and dragged, with whatever is drawn on it.
"use strict";

// Nothing happens before begin(). came() is called once there is a picture, or none can be had; clicked(event) after a
// press that did not move it; laid(zoom) whenever its size has changed. whole fits all of it into the frame, otherwise
// its width.
function showPicture({ came = () => {}, clicked = () => {}, laid = () => {}, whole = false }) {
  const byId = (id) => document.getElementById(id);
  const view = byId("view"), stage = byId("stage"), sheet = byId("sheet"), picture = byId("picture");
  const STEP = 1.25;
  let zoom = 0, isFitted = true, turn = Number(sheet.dataset.turn);

  function size() {
    const [width, height] = [Number(sheet.dataset.width), Number(sheet.dataset.height)];
    return width && height ? [width, height] : [picture.naturalWidth, picture.naturalHeight];
  }

  const liesOnItsSide = () => turn % 180 !== 0;

  function lay() {
    const [width, height] = size().map((length) => length * zoom);
    if (!width) return;
    const moves = { 0: "", 90: `translate(${height}px, 0)`, 180: `translate(${width}px, ${height}px)`, 270: `translate(0, ${width}px)` };
    sheet.classList.add("laid");
    sheet.style.width = `${width}px`;
    sheet.style.height = `${height}px`;
    sheet.style.transform = `${moves[turn]} rotate(${turn}deg)`;
    stage.style.width = `${liesOnItsSide() ? height : width}px`;
    stage.style.height = `${liesOnItsSide() ? width : height}px`;
    laid(zoom);
  }

  function fit() {
    const [width, height] = liesOnItsSide() ? size().reverse() : size();
    isFitted = true;
    zoom = view.clientWidth / width;
    if (whole) zoom = Math.min(zoom, view.clientHeight / height);
    if (Number.isFinite(zoom)) lay();
  }

  // What is in the middle stays there.
  function zoomBy(factor) {
    const [x, y] = [view.scrollLeft + view.clientWidth / 2, view.scrollTop + view.clientHeight / 2];
    zoom = Math.min(Math.max(zoom * factor, 0.02), 20);
    isFitted = false;
    lay();
    view.scrollLeft = x * factor - view.clientWidth / 2;
    view.scrollTop = y * factor - view.clientHeight / 2;
  }

  function rotate() {
    turn = (turn + 90) % 360;
    fit();
  }

  function bringIntoView(box) {
    const place = box.getBoundingClientRect(), seen = view.getBoundingClientRect();
    const isAside = place.left < seen.left || place.right > seen.right;
    if (place.top < seen.top || place.bottom > seen.bottom) view.scrollTop += place.top - seen.top - seen.height / 3;
    if (isAside) view.scrollLeft += place.left - seen.left - 20;
  }

  async function explainProblem() {
    let reason = "it did not come; try again later";
    try {
      const answer = await fetch(picture.src, { headers: { Accept: "application/json" } });
      if (!answer.ok) reason = (await answer.json()).message;
    } catch { /* the reason stays unknown */ }
    sheet.classList.add("empty");
    byId("picture-problem").textContent = `The picture cannot be shown: ${reason}`;
    byId("picture-problem").hidden = false;
    came();
  }

  function pictureCame() {
    fit();
    came();
  }

  function watch() {
    picture.addEventListener("load", pictureCame);
    picture.addEventListener("error", explainProblem);
    if (picture.complete) {
      if (picture.naturalWidth) pictureCame(); else explainProblem();
    }
    fit();
    new ResizeObserver(() => { if (isFitted) fit(); }).observe(view);
  }

  // Dragging moves the picture; a press that does not move is a click.
  function dragToPan() {
    let from = null;
    view.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.pointerType === "mouse") from = { x: event.clientX, y: event.clientY, left: view.scrollLeft, top: view.scrollTop, moved: false };
    });
    window.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
      from.moved ||= Math.hypot(dx, dy) > 4;
      if (!from.moved) return;
      view.classList.add("dragged");
      view.scrollLeft = from.left - dx;
      view.scrollTop = from.top - dy;
    });
    window.addEventListener("pointerup", (event) => {
      const wasClick = from && !from.moved;
      from = null;
      view.classList.remove("dragged");
      if (wasClick) clicked(event);
    });
    // Links that are drawn on it are not carried away.
    view.addEventListener("dragstart", (event) => event.preventDefault());
  }

  function begin() {
    watch();
    dragToPan();
  }

  return { STEP, begin, zoomBy, fit, rotate, bringIntoView };
}
