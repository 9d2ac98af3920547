// Keys: "/" goes to the search, "[" and "]" turn the page. On wide screens the filters are open. Nothing needs this script.
"use strict";
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const search = document.querySelector(".search input[type=search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  }
  const rel = { "[": "prev", "]": "next" }[event.key];
  const link = rel && document.querySelector(`.pages a[rel=${rel}]`);
  if (link) link.click();
});
