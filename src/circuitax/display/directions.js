// Feature directions in the plane, one panel a network; a slider moves them through the densities.
VIEWERS.directions = (root, facts) => {
  const SVG = "http://www.w3.org/2000/svg", last = facts.density.length - 1;
  root.innerHTML = `
<label class="slider"><span>density <i>p</i></span><input type="range" min="0" max="${last}" step="1" value="0"><output></output></label>
<div class="panels"></div>`;
  const slider = root.querySelector("input"), told = root.querySelector("output"), box = root.querySelector(".panels");
  const reach = 1.25 * Math.max(1, ...facts.panels.flatMap(panel => panel.directions.flat(1).map(([x, y]) => Math.hypot(x, y))));
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  function drawn(name, attributes, parent) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    parent.append(node);
    return node;
  }
  const panels = facts.panels.map(panel => {
    const figure = make("figure"), caption = make("figcaption"), title = make("b", "", panel.name);
    const svg = drawn("svg", { viewBox: `${-reach} ${-reach} ${2 * reach} ${2 * reach}`, role: "img" }, figure);
    drawn("path", { d: `M${-reach} 0H${reach}M0 ${-reach}V${reach}`, stroke: "#bbb", "stroke-width": 0.01, fill: "none" }, svg);
    drawn("circle", { r: 1, fill: "none", stroke: "#bbb", "stroke-width": 0.01 }, svg);
    const arrows = facts.colours.map((colour, i) => ({
      line: drawn("line", { x1: 0, y1: 0, stroke: colour, "stroke-width": 0.04 }, svg),
      dot: drawn("circle", { r: 0.1, fill: "#fff", stroke: colour, "stroke-width": 0.03 }, svg),
      name: Object.assign(drawn("text", { "font-size": 0.15, "text-anchor": "middle", "font-family": "system-ui, sans-serif" }, svg), { textContent: i }),
    }));
    const said = make("span");
    caption.append(title, make("br"), said);
    figure.append(caption);
    box.append(figure);
    return { panel, svg, arrows, said, shown: panel.directions[0] };
  });
  function place(item, directions) {
    item.shown = directions;
    directions.forEach(([x, y], i) => {
      const arrow = item.arrows[i];
      arrow.line.setAttribute("x2", x); arrow.line.setAttribute("y2", -y);
      arrow.dot.setAttribute("cx", x); arrow.dot.setAttribute("cy", -y);
      arrow.name.setAttribute("x", x); arrow.name.setAttribute("y", 0.05 - y);
    });
  }
  let moves = 0;
  function glide(at) {
    const move = ++moves, from = panels.map(item => item.shown), frames = still ? 1 : 12;
    (function frame(number) {
      const t = number / frames;
      panels.forEach((item, k) => place(item, item.panel.directions[at].map(
        (to, i) => to.map((value, axis) => (1 - t) * from[k][i][axis] + t * value))));
      if (number < frames) setTimeout(() => { if (move === moves) frame(number + 1); }, 20);
    })(1);
  }
  function show() {
    const at = Number(slider.value), p = facts.density[at].toPrecision(3);
    told.value = `p = ${p}, sparsity ${(1 - facts.density[at]).toFixed(3)}`;
    slider.setAttribute("aria-valuetext", told.value);
    panels.forEach(({ panel, said, svg }) => {
      const kept = panel.directions[at].map((d, i) => [Math.hypot(...d), i]).filter(pair => pair[0] > 0.5).map(pair => pair[1]);
      said.textContent = `keeps ${kept.length} of ${facts.colours.length} features (${kept.join(", ") || "none"}); loss ${panel.loss[at].toPrecision(4)}`;
      svg.setAttribute("aria-label", `${panel.name} at ${told.value}: ${said.textContent}`);
    });
    glide(at);
  }
  slider.addEventListener("input", show);
  panels.forEach(item => place(item, item.shown));
  show();
};
