// Filters the cards and the map of exported pages: the query is behind the # of the address, as `curate view` has it after ?.
"use strict";
(() => {
  const PAGE = 24;
  const VOTES = { model_a: "left preferred", model_b: "right preferred", tie: "tie", tie_bothbad: "both bad" };
  let data = null;

  const { inside, cornersOf } = window.exploreLasso;
  const make = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const query = () => new URLSearchParams(location.hash.slice(1));
  const worded = (facet, value) => (facet === "vote" ? VOTES[value] || value : facet === "tag" ? value.replaceAll("_", " ") : value);

  function address(change) {
    const next = query();
    next.delete("page");
    change(next);
    return `#${next}`;
  }

  function toggled(next, name, value) {
    const values = next.getAll(name);
    next.delete(name);
    const left = values.includes(value) ? values.filter((each) => each !== value) : [...values, value];
    left.forEach((each) => next.append(name, each));
  }

  function masks(asked) {
    const found = new Map();
    const search = (asked.get("q") || "").trim().toLowerCase();
    if (search) found.set("q", data.cards.map((card) => card[6].includes(search)));
    const area = asked.get("area") ? cornersOf(asked.get("area")) : [];
    if (area.length > 2) found.set("area", data.cards.map((card) => card[5] && inside(card[7], card[8], area)));
    for (const facet of data.facets) {
      const wanted = asked.getAll(facet.name).map((value) => facet.values.indexOf(value));
      if (wanted.length) found.set(facet.name, facet.rows.map((values) => values.some((value) => wanted.includes(value))));
    }
    return found;
  }

  function among(found, without) {
    const tested = [...found].filter(([name]) => name !== without).map(([, mask]) => mask);
    const onMap = document.getElementById("map");
    return data.cards.map((card, row) => (!onMap || card[5]) && tested.every((mask) => mask[row]));
  }

  function drawFacets(found, asked) {
    const holder = document.getElementById("filters");
    if (!holder) return;
    holder.replaceChildren(...data.facets.map((facet) => {
      const mask = among(found, facet.name);
      const counts = new Array(facet.values.length).fill(0);
      facet.rows.forEach((values, row) => { if (mask[row]) values.forEach((value) => { counts[value] += 1; }); });
      const chosen = asked.getAll(facet.name);
      const order = facet.values.map((value, n) => [value, counts[n]]).filter(([value, n]) => n || chosen.includes(value));
      order.sort((a, b) => b[1] - a[1]);
      const section = make("section");
      section.append(make("h3", "", facet.title));
      const entries = order.slice(0, 200).map(([value, n]) => entry(facet.name, value, n, chosen.includes(value)));
      const list = make("ul");
      list.append(...entries.slice(0, 8));
      section.append(list);
      if (entries.length > 8) {
        const more = make("details");
        const rest = make("ul");
        rest.append(...entries.slice(8));
        more.append(make("summary", "", `${entries.length - 8} more`), rest);
        section.append(more);
      }
      return section;
    }));
  }

  function entry(name, value, count, chosen) {
    const link = make("a");
    link.href = address((next) => toggled(next, name, value));
    if (chosen) link.setAttribute("aria-current", "true");
    link.append(make("bdi", "", worded(name, value).slice(0, 80)), make("span", "", count.toLocaleString("en")));
    const item = make("li");
    item.append(link);
    return item;
  }

  function drawnCard([snippet, href, thumb, models, vote]) {
    const card = make("li", "card");
    const link = make("a");
    link.href = href;
    if (thumb) {
      const frame = make("span", "frame");
      const image = make("img");
      Object.assign(image, { src: thumb, alt: "", loading: "lazy" });
      frame.append(image);
      link.append(frame);
    }
    const text = make("span", thumb ? "text" : "text alone", snippet || "(empty)");
    text.dir = "auto";
    link.append(text);
    const meta = make("span", "meta");
    models.forEach((model, side) => {
      if (side) meta.append(make("span", "against", vote ? "vs" : "and"));
      meta.append(make("bdi", vote === ["model_a", "model_b"][side] ? "model won" : "model", model));
    });
    if (vote === "tie" || vote === "tie_bothbad") meta.append(make("span", "badge", VOTES[vote]));
    card.append(link, meta);
    return card;
  }

  function drawCards(rows, asked) {
    const holder = document.querySelector(".cards");
    if (!holder) return;
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    const page = Math.min(Math.max(1, Number(asked.get("page")) || 1), pages);
    holder.replaceChildren(...rows.slice((page - 1) * PAGE, page * PAGE).map((row) => drawnCard(data.cards[row])));
    document.querySelectorAll(".pages").forEach((old) => old.remove());
    if (pages < 2) return;
    const nav = make("nav", "pages");
    const turn = (to, words, rel) => {
      const link = make(to >= 1 && to <= pages ? "a" : "span", "", to >= 1 && to <= pages ? words : "");
      if (link.tagName === "A") { link.href = address((next) => next.set("page", to)); link.rel = rel; }
      return link;
    };
    nav.append(turn(page - 1, "← Newer", "prev"), make("span", "", `${page} of ${pages.toLocaleString("en")}`), turn(page + 1, "Older →", "next"));
    holder.after(nav);
  }

  function drawChips(asked) {
    document.querySelectorAll(".chips").forEach((old) => old.remove());
    const chosen = data.facets.flatMap((facet) => asked.getAll(facet.name).map((value) => [facet.name, value, facet.title]));
    if (!chosen.length && !asked.get("area")) return;
    const chips = make("p", "chips");
    for (const [name, value, title] of chosen) {
      const link = make("a", "", `${title} ${worded(name, value)} ×`.slice(0, 120));
      link.href = address((next) => toggled(next, name, value));
      chips.append(link);
    }
    if (asked.get("area")) {
      const link = make("a", "", "area of the map ×");
      link.href = address((next) => next.delete("area"));
      chips.append(link);
    }
    const clear = make("a", "clear", "Clear all");
    clear.href = "#";
    chips.append(clear);
    document.querySelector(".results").prepend(chips);
  }

  function draw() {
    const asked = query();
    const found = masks(asked);
    const mask = among(found, "");
    const rows = [...mask.keys()].filter((row) => mask[row]);
    drawFacets(found, asked);
    drawChips(asked);
    drawCards(rows, asked);
    const total = document.getElementById("total");
    if (total) total.textContent = rows.length.toLocaleString("en");
    const kind = data.facets.find((facet) => facet.name === "kind"), kinds = document.getElementById("kinds");
    if (kinds) kinds.textContent = kind.values.map((value, n) => [value, rows.filter((row) => kind.rows[row][0] === n).length]).filter(([, n]) => n).sort((a, b) => b[1] - a[1]).map(([value, n]) => `${n.toLocaleString("en")} ${value}${n === 1 ? "" : "s"}`).join(", ");
    const selection = document.getElementById("selection");
    if (selection) {
      selection.hidden = !String(asked);
      document.getElementById("selected").textContent = rows.length.toLocaleString("en");
      selection.querySelectorAll("a").forEach((link) => { link.hash = String(asked); });
    }
    const search = document.querySelector(".search input[type=search]");
    if (search && document.activeElement !== search) search.value = asked.get("q") || "";
    window.exploreChosen = () => Uint8Array.from(data.cards.map((card, row) => [card[5], mask[row]]).filter(([placed]) => placed), ([, chosen]) => Number(chosen));
    if (window.exploreMap) window.exploreMap.choose(window.exploreChosen());
  }

  window.exploreRows = (loaded) => {
    data = loaded;
    draw();
    window.addEventListener("hashchange", draw);
    const form = document.querySelector(".search");
    if (form) form.addEventListener("submit", (event) => {
      event.preventDefault();
      const words = form.querySelector("input[type=search]").value.trim();
      location.hash = address((next) => (words ? next.set("q", words) : next.delete("q"))).slice(1);
    });
  };
})();
