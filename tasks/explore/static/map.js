// Draws the topic map with deck.gl: places and topics come from a script of data, prompts from pieces when one is hovered.
"use strict";
(() => {
  const COLOURS = [
    [76, 120, 168], [224, 128, 60], [79, 157, 105], [182, 90, 122], [122, 107, 181], [176, 141, 46],
    [63, 154, 163], [201, 92, 75], [111, 143, 60], [147, 98, 159], [138, 109, 86], [91, 127, 149],
  ];
  const GREY = [150, 156, 153];
  const SIZE = 1000;
  const CONTROLLER = { keyboard: true, doubleClickZoom: true };
  const pieces = new Map();
  let map = null;
  let outliersShown = true;

  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const element = (id) => document.getElementById(id);

  window.explorePiece = (number, rows) => {
    pieces.set(number, rows);
    if (map && map.waiting) showHover(map.waiting);
  };

  window.explorePoints = (data) => {
    const holder = element("map");
    if (!holder) return;
    if (!hasWebGL()) {
      holder.hidden = true;
      document.querySelector(".tools").hidden = true;
      element("no-map").hidden = false;
      return;
    }
    map = prepared(data, holder);
    map.names = labelElements(holder, data.labels);
    outliersShown = data.outliers;
    map.deck = new deck.Deck({
      parent: holder,
      views: new deck.OrthographicView({ flipY: false }),
      initialViewState: { target: [SIZE * data.width / 2, SIZE * data.height / 2, 0], zoom: zoomToFit(holder, data), minZoom: -3, maxZoom: 8 },
      controller: CONTROLLER,
      pickingRadius: 6,
      onHover: hovered,
      onClick: opened,
      getCursor: ({ isDragging, isHovering }) => (isDragging ? "grabbing" : isHovering ? "pointer" : "grab"),
      layers: layers(),
      onAfterRender: () => {
        placeLabels();
        if (!holder.dataset.ready) holder.dataset.ready = String(Math.round(performance.now()));
      },
      onError: () => { holder.hidden = true; element("no-map").hidden = false; },
    });
    const button = element("outliers");
    if (button) button.addEventListener("click", () => {
      outliersShown = !outliersShown;
      button.textContent = outliersShown ? "hide outliers" : "show outliers";
      map.deck.setProps({ layers: layers() });
    });
    window.exploreMap = {
      hold: (still) => map.deck.setProps({ controller: still ? false : CONTROLLER }),
      place: ([x, y]) => {
        const [across, up] = map.deck.getViewports()[0].unproject([x, y]);
        const { low, extent, width, height } = map.data;
        return [low[0] + across / (width * SIZE) * extent[0], low[1] + up / (height * SIZE) * extent[1]];
      },
      among: (corners) => {
        const { low, extent, count } = map.data;
        const asked = map.asked || (map.asked = map.chosen);
        map.chosen = new Uint8Array(count);
        let chosen = 0;
        for (let row = 0; row < count; row += 1) {
          const x = low[0] + map.places[2 * row] / 65535 * extent[0], y = low[1] + map.places[2 * row + 1] / 65535 * extent[1];
          if (asked[row] && window.exploreLasso.inside(x, y, corners)) { map.chosen[row] = 1; chosen += 1; }
        }
        map.deck.setProps({ layers: layers() });
        return chosen;
      },
      choose: (chosen) => { map.chosen = chosen; map.deck.setProps({ layers: layers() }); },
      shown: () => drawn().length,
    };
    if (window.exploreChosen) window.exploreMap.choose(window.exploreChosen());
    window.exploreLasso.start();
  };

  function hasWebGL() {
    try { return Boolean(document.createElement("canvas").getContext("webgl2")); } catch { return false; }
  }

  function prepared(data, holder) {
    const aspect = holder.clientWidth / holder.clientHeight;
    [data.width, data.height] = [Math.min(1, aspect), Math.min(1, 1 / aspect)];
    const places = new Uint16Array(bytes(data.places).buffer);
    const topics = new Int16Array(bytes(data.topics).buffer);
    return { data, places, topics, chosen: bytes(data.chosen), waiting: null };
  }

  function zoomToFit(holder, data) {
    const scale = Math.min(holder.clientWidth / (SIZE * data.width), holder.clientHeight / (SIZE * data.height));
    return Math.log2(scale * 0.88);
  }

  function drawn() {
    const rows = [];
    for (let row = 0; row < map.data.count; row += 1) {
      if (map.chosen[row] && (outliersShown || map.topics[row] >= 0)) rows.push(row);
    }
    return rows;
  }

  function layers() {
    const rows = drawn();
    map.rows = rows;
    const at = new Float32Array(rows.length * 2);
    const colour = new Uint8Array(rows.length * 4);
    const { width, height, count } = map.data;
    rows.forEach((row, n) => {
      at[2 * n] = map.places[2 * row] / 65535 * width * SIZE;
      at[2 * n + 1] = map.places[2 * row + 1] / 65535 * height * SIZE;
      const topic = map.topics[row];
      colour.set(topic < 0 ? GREY : COLOURS[topic % 12], 4 * n);
      colour[4 * n + 3] = topic < 0 ? 110 : 190;
    });
    return [
      new deck.ScatterplotLayer({
        id: "points",
        data: { length: rows.length, attributes: { getPosition: { value: at, size: 2 }, getFillColor: { value: colour, size: 4, normalized: true } } },
        radiusUnits: "pixels",
        getRadius: count > 20000 ? 2 : count > 2000 ? 3 : 5,
        pickable: true,
      }),
    ];
  }

  // Names of topics as they fit: large topics first, none over another one.
  function placeLabels() {
    const holder = element("map");
    const viewport = map.deck.getViewports()[0];
    if (!viewport) return;
    const { width, height, labels } = map.data;
    const taken = [];
    labels.forEach((label, n) => {
      const [x, y] = viewport.project([label[3] / 65535 * width * SIZE, label[4] / 65535 * height * SIZE]);
      const name = map.names[n];
      const [wide, high] = [name.offsetWidth / 2 + 4, name.offsetHeight / 2 + 2];
      const middle = y - high - 6;
      const inside = x > wide && middle > high && x < holder.clientWidth - wide && middle < holder.clientHeight - high;
      const free = inside && taken.every(([a, b, w, h]) => Math.abs(a - x) > w + wide || Math.abs(b - middle) > h + high);
      if (free) taken.push([x, middle, wide, high]);
      name.style.left = `${x}px`;
      name.style.top = `${middle}px`;
      name.style.visibility = free ? "visible" : "hidden";
    });
  }

  function labelElements(holder, labels) {
    return labels.map((label) => {
      const name = document.createElement("span");
      name.className = "label";
      name.textContent = label[0];
      holder.append(name);
      return name;
    });
  }

  function hovered({ index, x, y }) {
    const box = element("hover");
    if (!(index >= 0) || !map.rows || index >= map.rows.length) {
      map.waiting = null;
      box.hidden = true;
      return;
    }
    showHover({ row: map.rows[index], x, y });
  }

  function entryOf(row) {
    const number = Math.floor(row / map.data.pieceRows);
    if (!pieces.has(number)) {
      pieces.set(number, null);
      const script = document.createElement("script");
      script.src = map.data.pieces.replace("{}", number);
      document.head.append(script);
    }
    const rows = pieces.get(number);
    return rows && rows[row % map.data.pieceRows];
  }

  function showHover(wanted) {
    const box = element("hover");
    const entry = entryOf(wanted.row);
    map.waiting = entry ? null : wanted;
    if (!entry) return;
    const [prompt, models, , thumb] = entry;
    const image = box.querySelector("img");
    image.hidden = !thumb;
    if (thumb) image.src = thumb; else image.removeAttribute("src");
    box.querySelector(".what").textContent = prompt;
    box.querySelector(".who").textContent = models;
    box.hidden = false;
    const holder = element("map");
    const left = wanted.x + 16 + box.offsetWidth > holder.clientWidth ? wanted.x - 16 - box.offsetWidth : wanted.x + 16;
    box.style.left = `${Math.max(4, left)}px`;
    box.style.top = `${Math.max(4, Math.min(wanted.y + 12, holder.clientHeight - box.offsetHeight - 8))}px`;
  }

  function opened({ index }) {
    if (!(index >= 0)) return;
    const entry = entryOf(map.rows[index]);
    if (entry) window.location.assign(entry[2]);
  }
})();
