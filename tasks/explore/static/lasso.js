// Selects on the topic map: by drawing, or what is in view. The corners become the parameter "area" of the address and of the
// links below; "map.js" says where a place of the screen is on the map, and which points are drawn.
"use strict";
(() => {
  const CORNERS_MAX = 120;
  const element = (id) => document.getElementById(id);
  const isStatic = () => !element("selection").querySelector("a[download]");

  // Even-odd rule, as in facets.py.
  function inside(x, y, corners) {
    let odd = false, [x0, y0] = corners[corners.length - 1];
    for (let n = 0; n < corners.length; n += 1) {
      const x1 = corners[n][0], y1 = corners[n][1];
      if ((y0 > y) !== (y1 > y) && x < (x1 - x0) * (y - y0) / (y1 - y0) + x0) odd = !odd;
      x0 = x1;
      y0 = y1;
    }
    return odd;
  }

  const cornersOf = (text) => text.split("_").map((corner) => corner.split(",").map(Number)).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));

  function withArea(href, text) {
    const url = new URL(href, location.href);
    if (isStatic()) {
      const asked = new URLSearchParams(url.hash.slice(1));
      asked.set("area", text);
      url.hash = String(asked);
    } else url.searchParams.set("area", text);
    return url.href;
  }

  function select(corners) {
    const started = performance.now();
    const text = corners.map(([x, y]) => `${Number(x.toPrecision(6))},${Number(y.toPrecision(6))}`).join("_");
    if (isStatic()) { location.href = withArea(location.href, text); element("selection").hidden = false; }
    else {
      history.replaceState(null, "", withArea(location.href, text));
      element("selected").textContent = window.exploreMap.among(corners).toLocaleString("en");
      element("selection").hidden = false;
    }
    element("selection").querySelectorAll("a[data-area]").forEach((link) => { link.href = withArea(link.href, text); });
    element("map").dataset.selected = String(Math.round(performance.now() - started));
  }

  function start() {
    const holder = element("map"), button = element("lasso");
    let drawing = null, corners = [];
    function stop() {
      if (drawing) drawing.remove();
      drawing = null;
      window.exploreMap.hold(false);
      button.setAttribute("aria-pressed", "false");
    }
    button.addEventListener("click", () => {
      if (drawing) { stop(); return; }
      button.setAttribute("aria-pressed", "true");
      window.exploreMap.hold(true);
      drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      drawing.setAttribute("class", "drawing");
      const shape = document.createElementNS("http://www.w3.org/2000/svg", "polygon");
      drawing.append(shape);
      holder.append(drawing);
      const at = (event) => { const box = holder.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
      // The map below must neither move nor open an item.
      for (const name of ["pointerdown", "pointermove", "pointerup", "click", "wheel"]) drawing.addEventListener(name, (event) => event.stopPropagation());
      drawing.addEventListener("pointerdown", (event) => { corners = [at(event)]; drawing.setPointerCapture(event.pointerId); });
      drawing.addEventListener("pointermove", (event) => {
        if (!corners.length) return;
        corners.push(at(event));
        shape.setAttribute("points", corners.join(" "));
      });
      drawing.addEventListener("pointerup", () => {
        const every = Math.ceil(corners.length / CORNERS_MAX);
        const kept = corners.filter((_, n) => n % every === 0);
        corners = [];
        stop();
        if (kept.length > 2) select(kept.map(window.exploreMap.place));
      });
    });
    element("in-view").addEventListener("click", () => {
      const [width, height] = [holder.clientWidth, holder.clientHeight];
      select([[0, 0], [width, 0], [width, height], [0, height]].map(window.exploreMap.place));
    });
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") stop(); });
  }

  window.exploreLasso = { inside, cornersOf, start };
})();
