// Search, large pictures and the button for code. Without this file every page can be read all the same.
"use strict";
const find = (selector) => document.querySelector(selector);

// ---- search: the index, search.js, is fetched when somebody first types
const form = find("#search"), query = find("#query"), answer = find("#answer");
const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "");
let index;
function sections() {
  index ??= new Promise((done) => {
    const script = document.createElement("script");
    script.src = "search.js";
    script.onload = () => done(SECTIONS);
    document.head.append(script);
  });
  return index;
}
function score(words, title, text) {
  let sum = 0;
  for (const word of words) {
    const hits = 20 * title.includes(word) + text.split(word).length - 1;
    if (!hits) return 0;
    sum += Math.min(hits, 30);
  }
  return sum;
}
function excerpt(text, word) {
  const at = Math.max(plain(text).indexOf(word), 0), from = at > 60 ? text.indexOf(" ", at - 60) + 1 : 0;
  return (from ? "… " : "") + text.slice(from, at + 100).trim() + (text.length > at + 100 ? " …" : "");
}
async function search() {
  const words = plain(query.value).split(/\s+/).filter(Boolean);
  if (!words.length) return answer.replaceChildren();
  const found = (await sections())
    .map(([link, title, text]) => ({ link, title, text, score: score(words, plain(title), plain(text)) }))
    .filter((section) => section.score)
    .sort((a, b) => b.score - a.score);
  const list = document.createElement("ul");
  for (const { link, title, text } of found.slice(0, 12)) {
    const item = document.createElement("li"), anchor = document.createElement("a"), around = document.createElement("span");
    anchor.href = link;
    anchor.textContent = title;
    anchor.onclick = () => answer.replaceChildren();
    around.textContent = excerpt(text, words[0]);
    item.append(anchor, around);
    list.append(item);
  }
  const told = document.createElement("p");
  told.textContent = found.length ? `${found.length} places` : `Nothing has “${query.value}”.`;
  answer.replaceChildren(told, list);
}
form.hidden = false;
form.onsubmit = (event) => { event.preventDefault(); search(); };
query.oninput = search;
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && answer.firstChild) { answer.replaceChildren(); query.focus(); }
  if (event.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) { event.preventDefault(); query.focus(); }
});
document.addEventListener("click", (event) => {
  if (!form.contains(event.target)) answer.replaceChildren();
  const menu = find(".menu");
  if (event.target.closest(".menu a") || !menu.contains(event.target)) menu.open = false;
});
if (new URLSearchParams(location.search).has("q")) {
  query.value = new URLSearchParams(location.search).get("q");
  search();
}

// ---- a picture, large; Escape closes it
const large = find("#large"), sheet = find("#large .sheet");
let width;
const resize = (factor) => { width *= factor; sheet.firstChild.style.width = `${width}px`; };
for (const link of document.querySelectorAll("a.zoom")) {
  link.onclick = (event) => {
    event.preventDefault();
    const image = link.firstElementChild.cloneNode();
    image.loading = "eager";
    sheet.replaceChildren(image);
    large.showModal();
    width = Math.max(sheet.clientWidth - 2, 600);
    resize(1);
  };
}
for (const button of large.querySelectorAll("[data-by]")) button.onclick = () => resize(Number(button.dataset.by));

// ---- all code at once
const all = find("#all-code");
if (all) {
  all.hidden = false;
  all.onclick = () => {
    const cells = [...document.querySelectorAll("details.code")], open = cells.some((cell) => !cell.open);
    for (const cell of cells) cell.open = open;
    all.textContent = open ? "Hide all code" : "Show all code";
  };
}

// ---- a link to the findings of one verdict
function choose() {
  const chosen = location.hash.startsWith("#show-") && find(location.hash);
  if (chosen) chosen.checked = true;
}
choose();
addEventListener("hashchange", choose);