/* Every code cell folds, and one button folds them all; the choice is kept while you turn pages. */
document.addEventListener("DOMContentLoaded", () => {
  const inputs = [...document.querySelectorAll("div.cell > .cell_input")];
  if (!inputs.length) return;
  let open = sessionStorage.getItem("code") !== "hidden";
  const folds = inputs.map((input) => {
    const fold = document.createElement("details");
    fold.className = "code";
    fold.open = open;
    const lines = input.querySelector("pre").textContent.trim().split("\n").length;
    fold.innerHTML = `<summary>code, ${lines} line${lines > 1 ? "s" : ""}</summary>`;
    input.replaceWith(fold);
    fold.append(input);
    return fold;
  });
  const button = document.createElement("button");
  button.className = "fold-all";
  const say = () => (button.textContent = open ? "Hide all code" : "Show all code");
  button.addEventListener("click", () => {
    open = !open;
    sessionStorage.setItem("code", open ? "shown" : "hidden");
    folds.forEach((fold) => (fold.open = open));
    say();
  });
  say();
  document.querySelector("article h1").before(button);
});
