// The arena's page: sends what is typed and clicked, and shows answers while they come. All HTML is made by the server.
"use strict";
const body = document.body, data = body.dataset, words = JSON.parse(data.words || "{}");
const at = (id) => document.getElementById(id);
const text = at("text"), pictures = [];
let stream = null, uploading = 0;

function news(line, bad = false) {
  at("notice").textContent = line;
  at("notice").classList.toggle("bad", bad);
}

async function ask(method, address, content, type = "application/json") {
  let answer;
  try {
    answer = await fetch(address, {method, body: content, headers: content === undefined ? {} : {"content-type": type}});
  } catch {
    news(words.unreachable, true);
    return null;
  }
  const told = answer.headers.get("content-type")?.includes("json") ? await answer.json() : {};
  const asks = told.key === "doubted";  // whether it is sent is the visitor's choice
  appeal(answer.ok || asks ? "" : told.key);
  if (answer.ok || asks) return told;
  if (told.key === "terms_first" && data.accepted) news(words.terms_changed, true);  // since this page was opened
  else news(told.refused || (answer.status === 413 ? words.too_large : words.unreachable), true);
  return null;
}

// Who was refused may write to the operators.
function appeal(key) {
  if (!at("appeal")) return;
  at("appeal").hidden = !key;
  at("appeal").open = false;
  at("appeal").dataset.key = key || "";
}

const post = (address, content = {}) => ask("POST", address, JSON.stringify(content));

// ---- A conversation
function show(told) {
  const near = innerHeight + scrollY > document.documentElement.scrollHeight - 80;
  if (data.number !== told.number) history.pushState(null, "", told.address);
  data.number = told.number;
  data.answers = told.answers.join(" ");
  body.classList.remove("first");
  const begun = begunReasons();
  at("messages").innerHTML = told.messages;
  at("bar").innerHTML = told.bar;
  goOnWith(begun);
  goingOn();
  news(told.notice);
  answering(told.answering);
  at("composer").hidden = !told.open;
  at("chosen")?.remove();
  at("terms-line")?.remove();
  at("talks").innerHTML = told.talks;
  listed();
  side(body.classList.contains("show-1") ? 1 : 0);
  formulas();
  size();
  if (near) scrollTo(0, document.documentElement.scrollHeight);
  if (told.answering) listen(told.address);
}

// What is chosen and typed in a form of reasons, and not sent yet, outlives whatever else happens on the page.
const reasonForms = () => [...document.querySelectorAll("form.why")];
function begunReasons() {
  return reasonForms().map((form) => {
    const fields = [...form.querySelectorAll("input[type=text]")], typing = fields.indexOf(document.activeElement);
    const {turn, place} = form.dataset;
    return {turn, place, given: new FormData(form), typing, caret: fields[typing]?.selectionStart};
  });
}

function goOnWith(begun) {
  const turns = document.querySelectorAll(".turn").length;
  for (const {turn, place, given, typing, caret} of begun) {
    const form = reasonForms().find((each) => each.dataset.turn === turn && each.dataset.place === place);
    const comments = given.getAll("comment");
    if (!form) {  // the round has ended: a comment on one of its last answers goes to that of the vote
      const ofVote = Number(turn) === turns && at("why")?.querySelectorAll("[name=comment]")[place];
      if (ofVote) ofVote.value ||= comments[0];
      continue;
    }
    for (const chip of form.querySelectorAll("[name=chip]")) chip.checked = given.getAll("chip").includes(chip.value);
    form.querySelectorAll("[name=comment]").forEach((field, index) => { field.value = comments[index] || ""; });
    if (form.elements.words) form.elements.words.value = given.get("words") || "";
    const field = form.querySelectorAll("input[type=text]")[typing];
    field?.focus({preventScroll: true});
    field?.setSelectionRange(caret, caret);
  }
}

function answering(on) {
  data.answering = on ? "1" : "";
  at("stop").hidden = !on;
}

function listen(address) {
  stream?.close();
  const now = stream = new EventSource(`${address}/events`);
  now.addEventListener("answers", (event) => { if (now === stream) grow(JSON.parse(event.data)); });
  now.addEventListener("ended", (event) => { now.close(); if (now === stream) show(JSON.parse(event.data)); });
  now.addEventListener("error", () => { if (now.readyState === EventSource.CLOSED) news(words.unreachable, true); });
}

const sent = new Map();
function longer(key, change, shown) {
  const before = sent.get(key) || "", html = before.slice(0, change.keep) + change.html;
  if (html && html !== before) shown.innerHTML = html;
  sent.set(key, html);
  return html;
}

function grow(told) {
  const near = innerHeight + scrollY > document.documentElement.scrollHeight - 160;
  const last = at("messages").querySelector(".turn:last-child");
  for (const each of told.sides) {
    const place = last?.querySelector(`[data-side="${each.place}"]`);
    if (!place) continue;
    const html = longer(`answer ${each.place}`, each.answer, place.querySelector(".said-by"));
    const thinking = place.querySelector(".thinking");
    thinking.hidden = !longer(`thinking ${each.place}`, each.thinking, thinking.querySelector(".rich"));
    thinking.querySelector("summary").textContent = each.thought;
    const report = at("bar").querySelector(`[data-act=flag][data-place="${each.place}"]`);
    if (report) report.disabled = !html;
  }
  if (told.notice || at("notice").classList.contains("queued")) news(told.notice);
  at("notice").classList.toggle("queued", Boolean(told.notice));
  if (told.votable) for (const button of at("bar").querySelectorAll(".vote")) button.dataset.open = "1";
  if (told.votable) unlock();
  if (near) scrollTo(0, document.documentElement.scrollHeight);
}

// The list of own talks has a place at the side as soon as there is one.
function listed() {
  at("talks").hidden = !at("talks").childElementCount;
  body.classList.toggle("listed", !at("talks").hidden);
}

// Whether the talk goes on after a vote is remembered until the tab is closed.
function goingOn() {
  if (at("goes-on")) at("goes-on").checked = sessionStorage.getItem("goes-on") === "1";
}

// The answers that a click is on: a message's number, and how many answers to it came before. Other tabs may have newer ones.
const shownAnswers = ({dataset: on}) => on.turn ? [Number(on.turn), Number(on.regenerated)] : data.answers.split(" ").map(Number);

async function act(button) {
  if (button.dataset.sure && !confirm(button.dataset.sure)) return;
  const {act: what, kind, place, turn} = button.dataset, answers = shownAnswers(button);
  const goes_on = what === "vote" && Boolean(at("goes-on")?.checked), withdrawn = button.getAttribute("aria-pressed") === "true";
  const told = await post(`/c/${data.number}/${what}`, {kind, place: Number(place || 0), answers, goes_on, withdrawn});
  if (!told) return;
  sent.clear();
  show(told);
  if (what === "react") document.querySelector(`.thumb.${kind}[data-turn="${turn}"][data-place="${place}"]`)?.focus({preventScroll: true});
  if (what === "vote") (at("why")?.querySelector("input") || at("bar").querySelector(".button"))?.focus({preventScroll: getComputedStyle(document.querySelector(".dock")).position === "sticky"});
}

// On a narrow screen one answer is shown at a time: votes wait until both were opened, of which a reload loses nothing.
const openedKey = () => `opened ${data.number} ${data.answers}`;
const opened = () => JSON.parse(sessionStorage.getItem(openedKey()) || "[]");
function unlock() {
  const tabs = document.querySelector(".switch"), buttons = [...at("bar").querySelectorAll(".vote")];
  const waits = tabs && getComputedStyle(tabs).display !== "none" && opened().length < tabs.children.length;
  for (const button of buttons) {
    button.dataset.open ??= button.disabled ? "" : "1";
    button.disabled = !button.dataset.open || waits;
  }
  if (waits && buttons.some((button) => button.dataset.open)) news(words.open_both);
  else if (at("notice").textContent === words.open_both) news("");
}

function side(place) {
  sessionStorage.setItem(openedKey(), JSON.stringify([...new Set([...opened(), place])]));
  unlock();
  body.classList.toggle("show-0", place === 0);
  body.classList.toggle("show-1", place === 1);
  for (const button of document.querySelectorAll("[data-show]")) button.setAttribute("aria-pressed", String(Number(button.dataset.show) === place));
}

// Formulas are drawn by KaTeX as MathML once an answer has one and has ended.
let katex = null;
function formulas() {
  const found = data.katex && !data.answering ? document.querySelectorAll(".math:not([data-drawn])") : [];
  if (!found.length) return;
  katex ??= new Promise((done) => {
    const script = document.createElement("script");
    script.src = data.katex;
    script.onload = done;
    document.head.append(script);
  });
  katex.then(() => {
    for (const each of found) {
      each.dataset.drawn = "1";
      window.katex.render(each.textContent, each, {output: "mathml", throwOnError: false, trust: false, maxExpand: 200, displayMode: Boolean(each.dataset.display)});
    }
  });
}

// ---- The composer
// What is typed outlives a vote, a new round and a reload, until it is sent or the tab is closed.
function size() {
  sessionStorage.setItem("draft", text.value);
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
  const left = Number(text.dataset.most) - [...text.value].length, counter = at("counter");
  counter.textContent = left < Number(text.dataset.most) / 10 ? words.counter.replace("{left}", left.toLocaleString(document.documentElement.lang)) : "";
  counter.classList.toggle("bad", left < 0);
}

function wanted() {
  const sampling = {};
  for (const field of document.querySelectorAll(".sampling input")) if (field.value) sampling[field.name] = Number(field.value);
  const chosen = [...document.querySelectorAll("select[name=model]")].map((each) => each.value);
  return {number: data.number, answers: shownAnswers(body), mode: data.mode, chosen, text: text.value, pictures: pictures.map((each) => each.name), sampling};
}

async function send() {
  if (data.answering) return news(words.still_answering, true);
  if (uploading) return news(words.uploading);
  if (!text.value.trim() && !pictures.length) return text.focus();
  if (!data.accepted) return terms(true);
  if (at("send").disabled) return;
  at("send").disabled = true;
  const message = wanted();
  let told = await post("/say", message);
  if (told?.key === "doubted") told = confirm(told.refused) ? await post("/say", {...message, sure: true}) : null;
  at("send").disabled = false;
  if (!told) return;
  if (text.value.startsWith(message.text)) text.value = text.value.slice(message.text.length).trimStart();  // typed since
  pictures.splice(0, pictures.length, ...pictures.filter((each) => !message.pictures.includes(each.name)));
  drawn();
  size();
  sent.clear();
  show(told);
  at("messages").querySelector(".turn:last-child")?.scrollIntoView({block: "start"});
}

function drawn() {
  at("pictures").hidden = !pictures.length;
  at("pictures").replaceChildren(...pictures.map((each) => {
    const item = document.createElement("li"), image = document.createElement("img"), button = document.createElement("button");
    image.src = `/pictures/${each.name}`;
    image.alt = each.alt || words.image;
    button.type = "button";
    button.textContent = "×";
    button.setAttribute("aria-label", words.remove_image);
    button.addEventListener("click", () => {
      pictures.splice(pictures.indexOf(each), 1);
      ask("DELETE", `/pictures/${each.name}`);
      drawn();
      text.focus();
    });
    item.append(image, button);
    return item;
  }));
}

async function add(address, content, alt) {
  if (pictures.length >= Number(data.images)) return news(words.images_at_most.replace("{most}", data.images), true);
  uploading++;
  news(words.uploading);
  const told = content ? await ask("POST", address, content, "application/octet-stream") : await post(address);
  uploading--;
  if (!told) return;
  news("");
  pictures.push({name: told.name, alt});
  drawn();
  text.focus();
  return true;
}

// A starter prompt takes the place of what is there, with its picture in place of that of another one.
async function starter(button) {
  text.value = button.dataset.ask;
  size();
  text.focus();
  const before = pictures.findIndex((each) => each.starter), picture = button.dataset.picture;
  if (before >= 0) ask("DELETE", `/pictures/${pictures.splice(before, 1)[0].name}`);
  drawn();
  if (picture && await add(`/starters/${picture}`)) pictures.at(-1).starter = true;
}

async function files(list) {
  for (const each of list) if (each.type.startsWith("image/") || !each.type) await add("/pictures", each);
}

function terms(sending) {
  const yes = at("terms-yes");
  yes.textContent = sending ? yes.dataset.send : yes.dataset.only;
  yes.hidden = Boolean(data.accepted);
  yes.onclick = async () => {
    if (!await ask("POST", `/terms?version=${data.terms}`)) return;
    data.accepted = "1";
    at("terms").close();
    at("terms-line")?.remove();
    if (sending) send();
  };
  at("terms").showModal();
}

// ---- Events
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button, a");
  if (!button) return;
  const on = button.dataset;
  if (on.act) act(button);
  else if (on.show) side(Number(on.show));
  else if (on.example) add(`/examples/${on.example}`, undefined, button.textContent.trim());
  else if (on.ask) starter(button);
  else if (on.terms || button.id === "terms-open") terms(false);
  else if (on.copy) { await navigator.clipboard.writeText(button.closest(".answer").querySelector(".said-by").innerText); news(words.copied); }
  else if (on.copyLink) { await navigator.clipboard.writeText(location.origin + on.copyLink); news(words.copied); }
  else if (on.new && data.answering) { event.preventDefault(); await post(`/c/${data.number}/stop`); location = button.href; }
  else if (on.all && confirm(on.sure)) { if (await post(on.all)) location.reload(); }
});

document.addEventListener("change", (event) => {
  if (event.target.id === "goes-on") sessionStorage.setItem("goes-on", event.target.checked ? "1" : "");
});

document.addEventListener("submit", async (event) => {
  if (event.target.id === "composer") { event.preventDefault(); send(); }
  if (event.target.id === "appeal-form") {
    event.preventDefault();
    const sent = await post("/appeal", {key: at("appeal").dataset.key, words: event.target.elements.words.value});
    if (sent) { event.target.reset(); news(sent.notice); }
  }
  if (!event.target.classList.contains("why")) return;
  event.preventDefault();
  const form = new FormData(event.target), said = form.get("words") || "", comments = form.getAll("comment");
  if (!form.has("chip") && ![said, ...comments].some((each) => each.trim())) return event.target.querySelector("input[type=text]").focus();
  const {kind, turn, place} = event.target.dataset, why = {chips: form.getAll("chip"), comments, answers: shownAnswers(event.target)};
  if (turn) {
    const reacted = await post(`/c/${data.number}/react`, {...why, kind, place: Number(place)});
    if (reacted) { event.target.remove(); sent.clear(); show(reacted); }
    return;
  }
  const told = await post(`/c/${data.number}/reason`, {...why, words: said});
  if (told) { event.target.remove(); news(told.notice); at("bar").querySelector(".button")?.focus(); }
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.closest("input, textarea, select, dialog")) return;
  const latin = /^[a-z]$/i.test(event.key) ? event.key.toLowerCase() : event.code.replace("Key", "").toLowerCase();
  const button = document.querySelector(`.vote[data-key="${CSS.escape(latin)}"]:not(:disabled)`);
  if (button) { event.preventDefault(); button.click(); }
});

if (text) {
  text.addEventListener("input", size);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
  });
  at("stop").addEventListener("click", () => post(`/c/${data.number}/stop`));
  at("terms-no").addEventListener("click", () => at("terms").close());
  at("attach")?.addEventListener("click", () => at("file").click());
  at("file")?.addEventListener("change", (event) => { files([...event.target.files]); event.target.value = ""; });
  if (at("attach")) {
    addEventListener("paste", (event) => files([...event.clipboardData.files]));
    addEventListener("dragover", (event) => { event.preventDefault(); document.querySelector(".box").classList.add("over"); });
    addEventListener("dragleave", () => document.querySelector(".box").classList.remove("over"));
    addEventListener("drop", (event) => { event.preventDefault(); document.querySelector(".box").classList.remove("over"); files([...event.dataTransfer.files]); });
  }
  let from = null;
  at("messages").addEventListener("touchstart", (event) => { from = event.target.closest("pre, table, .math") ? null : event.touches[0]; }, {passive: true});
  at("messages").addEventListener("touchend", (event) => {
    const to = event.changedTouches[0];
    if (from && Math.abs(to.clientX - from.clientX) > 60 && Math.abs(to.clientY - from.clientY) < 50) side((to.clientX < from.clientX) === (document.dir === "rtl") ? 0 : 1);
  }, {passive: true});
  addEventListener("resize", unlock);
  addEventListener("popstate", () => location.reload());
  if (matchMedia("(pointer: fine)").matches && !at("composer").hidden) text.focus({preventScroll: true});
  text.value ||= sessionStorage.getItem("draft") || "";
  size();
  side(0);
  goingOn();
  formulas();
  if (data.answering) listen(`/c/${data.number}`);
  answering(Boolean(data.answering));
} else formulas();
