// Keys of the review pages: each button, box and link names its own. Nothing needs this script.
"use strict";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select, button, a") && event.key === "Enter") return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
  for (const each of document.querySelectorAll("[data-key]")) {
    if (each.dataset.key === event.key) { event.preventDefault(); each.click(); return; }
  }
});
