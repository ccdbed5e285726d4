// What all viewers share. A viewer is a function of a place on the page and of its facts.
const VIEWERS = {};
const minus = text => text.replace("-", "−");
const signed = x => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(4);
function make(name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}
function meter(value, most, both) {
  const box = make("div", "meter" + (both ? " axis" : "")), bar = make("i", value < 0 ? "minus" : "plus");
  const width = (both ? 50 : 100) * Math.abs(value) / (most || 1);
  bar.style.width = width + "%";
  bar.style.left = both ? (value < 0 ? 50 - width : 50) + "%" : "0";
  box.append(bar);
  return box;
}
function rowOf(cells) {
  const row = make("tr");
  for (const [content, className] of cells) {
    const cell = make("td", className);
    cell.append(content);
    row.append(cell);
  }
  return row;
}
// A toolbar has one stop for the Tab key; arrow keys move inside. Focus and click choose, and hover does where asked.
function toolbar(box, label, choose, hover = true) {
  box.setAttribute("role", "toolbar");
  box.setAttribute("aria-label", label + "; arrow keys move between them");
  const buttons = [...box.querySelectorAll("button")];
  buttons.forEach((button, i) => {
    button.tabIndex = i ? -1 : 0;
    const act = () => { buttons.forEach(other => { other.tabIndex = other === button ? 0 : -1; }); choose(i); };
    for (const event of [...(hover ? ["mouseenter"] : []), "focus", "click"]) button.addEventListener(event, act);
  });
  box.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const last = buttons.length - 1, now = buttons.indexOf(document.activeElement);
    const to = event.key === "Home" ? 0 : event.key === "End" ? last : step === undefined ? null : Math.min(last, Math.max(0, now + step));
    if (to === null) return;
    event.preventDefault();
    buttons[to].focus();
  });
}
