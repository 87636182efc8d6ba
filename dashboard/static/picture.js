// A viewer for a picture and the marks on it: fit, zoom, rotate, pan.
"use strict";

// Call start() once. onReady() is called when the picture has loaded or failed, onClick(event) after a press without
// dragging, onLayout(zoom) after each change of size. fitWhole fits the whole picture into the view, otherwise its width.
function createViewer({ onReady = () => {}, onClick = () => {}, onLayout = () => {}, fitWhole = false }) {
  const byId = (id) => document.getElementById(id);
  const view = byId("view"), extent = byId("extent"), layer = byId("layer"), picture = byId("picture");
  const STEP = 1.25;
  let zoom = 0, isFitted = true, rotation = Number(layer.dataset.rotation);

  function size() {
    const [width, height] = [Number(layer.dataset.width), Number(layer.dataset.height)];
    return width && height ? [width, height] : [picture.naturalWidth, picture.naturalHeight];
  }

  const isSideways = () => rotation % 180 !== 0;

  function layOut() {
    const [width, height] = size().map((length) => length * zoom);
    if (!width) return;
    const offsets = { 0: "", 90: `translate(${height}px, 0)`, 180: `translate(${width}px, ${height}px)`, 270: `translate(0, ${width}px)` };
    layer.classList.add("scaled");
    layer.style.width = `${width}px`;
    layer.style.height = `${height}px`;
    layer.style.transform = `${offsets[rotation]} rotate(${rotation}deg)`;
    extent.style.width = `${isSideways() ? height : width}px`;
    extent.style.height = `${isSideways() ? width : height}px`;
    onLayout(zoom);
  }

  function fit() {
    const [width, height] = isSideways() ? size().reverse() : size();
    isFitted = true;
    zoom = view.clientWidth / width;
    if (fitWhole) zoom = Math.min(zoom, view.clientHeight / height);
    if (Number.isFinite(zoom)) layOut();
  }

  // The centre of the view stays where it is.
  function zoomBy(factor) {
    const [x, y] = [view.scrollLeft + view.clientWidth / 2, view.scrollTop + view.clientHeight / 2];
    zoom = Math.min(Math.max(zoom * factor, 0.02), 20);
    isFitted = false;
    layOut();
    view.scrollLeft = x * factor - view.clientWidth / 2;
    view.scrollTop = y * factor - view.clientHeight / 2;
  }

  function rotate() {
    rotation = (rotation + 90) % 360;
    fit();
  }

  function scrollTo(mark) {
    const box = mark.getBoundingClientRect(), visible = view.getBoundingClientRect();
    const isBeside = box.left < visible.left || box.right > visible.right;
    if (box.top < visible.top || box.bottom > visible.bottom) view.scrollTop += box.top - visible.top - visible.height / 3;
    if (isBeside) view.scrollLeft += box.left - visible.left - 20;
  }

  async function showError() {
    let reason = "it could not be loaded; try again later";
    try {
      const response = await fetch(picture.src, { headers: { Accept: "application/json" } });
      if (!response.ok) reason = (await response.json()).message;
    } catch { /* keep the general reason */ }
    layer.classList.add("empty");
    byId("picture-problem").textContent = `The picture cannot be shown: ${reason}`;
    byId("picture-problem").hidden = false;
    onReady();
  }

  function handleLoad() {
    fit();
    onReady();
  }

  function watchPicture() {
    new ResizeObserver(() => { if (isFitted) fit(); }).observe(view);
    fit();
    if (!picture.hasAttribute("src")) {   // a document without a file
      layer.classList.add("empty");
      return onReady();
    }
    picture.addEventListener("load", handleLoad);
    picture.addEventListener("error", showError);
    if (picture.complete) {
      if (picture.naturalWidth) handleLoad(); else showError();
    }
  }

  // A press that moves pans the picture; one that does not is a click.
  function enablePanning() {
    let start = null;
    view.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.pointerType === "mouse") start = { x: event.clientX, y: event.clientY, left: view.scrollLeft, top: view.scrollTop, moved: false };
    });
    window.addEventListener("pointermove", (event) => {
      if (!start) return;
      const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
      start.moved ||= Math.hypot(dx, dy) > 4;
      if (!start.moved) return;
      view.classList.add("dragging");
      view.scrollLeft = start.left - dx;
      view.scrollTop = start.top - dy;
    });
    window.addEventListener("pointerup", (event) => {
      const wasClick = start && !start.moved;
      start = null;
      view.classList.remove("dragging");
      if (wasClick) onClick(event);
    });
    // Marks are links, which browsers would drag away.
    view.addEventListener("dragstart", (event) => event.preventDefault());
  }

  function start() {
    watchPicture();
    enablePanning();
  }

  return { STEP, start, zoomBy, fit, rotate, scrollTo };
}
