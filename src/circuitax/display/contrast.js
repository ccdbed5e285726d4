// The difference of two texts: positions as columns, layers as rows, bands and arcs by what they carry.
VIEWERS.contrast = (root, facts) => {
  root.innerHTML = `
<p class="legend"></p>
<label class="slider">Moves of at least <output></output><input type="range" min="0" max="100" step="1" value="45"></label>
<div class="beside">
<div class="scroll" role="region" aria-label="Flow: columns are positions, rows are layers" tabindex="0"></div>
<div class="about" aria-live="polite"></div>
</div>`;
  const at = name => root.querySelector("." + name), slider = root.querySelector("input");
  const escape = text => text.replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const short = x => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(2);
  const { tokens, flow, nodes, kinds } = facts, n = tokens.length, layers = flow.length - 1;
  const differs = i => tokens[i][0] !== tokens[i][1];
  const token = i => (differs(i) ? tokens[i].join(" / ") : tokens[i][0]) + " (" + i + ")";
  const cut = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;
  const tall = Math.max(16, Math.min(70, 500 / layers)), left = 30, top = 26;
  // Columns in which nothing stands are narrow; the others share the room beside the details.
  const whole = Math.max(...flow.flat().map(Math.abs), 1e-9), carries = tokens.map((_, t) => flow.some(row => Math.abs(row[t]) > 0.005 * whole));
  const room = (root.clientWidth || 900) - (root.clientWidth > 900 ? 440 : 0) - left - 40, idle = carries.filter(one => !one).length;
  const wide = Math.max(56, Math.min(200, (room - 46 * idle) / (n - idle || 1))), widths = carries.map(one => one ? wide : 46);
  const starts = widths.reduce((all, width) => [...all, all[all.length - 1] + width], [left]), right = starts[n];
  const x = t => (starts[t] + starts[t + 1]) / 2, y = cut => top + (layers - cut) * tall;
  const thick = value => Math.abs(value) / whole * Math.min(0.5 * wide, 44);
  const sizes = nodes.flatMap(node => node.moves.map(move => Math.abs(move[2]))), most = Math.max(...sizes, 1e-9);
  const state = { least: 0, chosen: nodes.findIndex(node => node.kind === "head") };
  const label = node => node.kind === "head" ? node.name : "m" + node.layer;
  function places() {
    const cells = {}, found = {};
    nodes.forEach((node, i) => { if (Math.abs(node.value) >= state.least || i === state.chosen) { const cell = node.at + "|" + node.layer; (cells[cell] = cells[cell] || []).push(i); } });
    for (const keys of Object.values(cells)) {
      const total = keys.reduce((sum, i) => sum + 6 * label(nodes[i]).length + 8, -2), { at, layer } = nodes[keys[0]];
      let from = Math.max(left, Math.min(x(at) - total / 2, right + 26 - total));
      keys.forEach(i => { const w = 6 * label(nodes[i]).length + 6; found[i] = [from + w / 2, w, y(layer + 0.5)]; from += w + 2; });
    }
    return Object.entries(found);
  }
  function bands() {
    const parts = [];
    for (let t = 0; t < n; t++) for (let l = 0; l < layers; l++) {
      const [below, above] = [flow[l][t], flow[l + 1][t]], [a, b] = [thick(below) / 2, thick(above) / 2];
      if (a + b < 0.4) continue;
      parts.push(`<path class="band ${below + above < 0 ? "minus" : "plus"}" d="M${x(t) - a} ${y(l)}L${x(t) - b} ${y(l + 1)}L${x(t) + b} ${y(l + 1)}L${x(t) + a} ${y(l)}Z"/>`);
    }
    return parts.join("");
  }
  function arcs() {
    const parts = [];
    nodes.forEach((node, i) => node.moves.forEach(([from, kind, value]) => {
      if (from === node.at || Math.abs(value) < state.least) return;
      const [x1, y1, x2, y2] = [x(from), y(node.layer), x(node.at), y(node.layer + 1)];
      parts.push([Math.abs(value), `<path class="arc k-${kinds[kind]}${value < 0 ? " minus" : ""}${i === state.chosen ? " here" : ""}" data-node="${i}" stroke-width="${Math.max(1, thick(value))}" d="M${x1} ${y1}C${x1} ${y1 - tall} ${x2} ${y2 + tall} ${x2} ${y2}"><title>${escape(node.name + " moves " + short(value) + " from " + token(from) + " to " + token(node.at) + " by " + kinds[kind])}</title></path>`]);
    }));
    return parts.sort((a, b) => b[0] - a[0]).map(part => part[1]).join("");
  }
  function draw() {
    const rows = [];
    for (let l = 0; l < layers; l += Math.max(1, Math.ceil(16 / tall))) rows.push(`<text class="layer" x="${left - 8}" y="${y(l + 0.5) + 4}" text-anchor="end">${l}</text><path class="rule" d="M${left} ${y(l)}H${right}"/>`);
    const names = tokens.map((_, t) => `<g class="name${differs(t) ? " differs" : ""}"><title>${escape(token(t))}</title>${(differs(t) ? tokens[t] : [tokens[t][0]]).map((text, i) => `<text x="${x(t)}" y="${y(0) + 18 + 14 * i}" text-anchor="middle">${escape(cut(text, Math.floor(widths[t] / 6.5)))}</text>`).join("")}</g>`);
    const boxes = places().map(([i, [mid, w, middle]]) => `<g class="node ${nodes[i].kind}" data-node="${i}" tabindex="0" role="button" aria-pressed="${+i === state.chosen}" aria-label="${escape(nodes[i].name + " at " + token(nodes[i].at) + ", " + short(nodes[i].value))}"><rect x="${mid - w / 2}" y="${middle - 7}" width="${w}" height="14" rx="3"/><text x="${mid}" y="${middle + 3.5}" text-anchor="middle">${label(nodes[i])}</text></g>`);
    const height = y(0) + 42, width = right + 30;
    const held = root.contains(document.activeElement) && document.activeElement.dataset.node;
    at("scroll").innerHTML = `<svg class="flows" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${rows.join("")}${bands()}${arcs()}${boxes.join("")}${names.join("")}<text class="goal" x="${Math.min(x(facts.position), width - 70)}" y="16" text-anchor="middle">${escape(cut(facts.metric, 22))} ${short(facts.delta)}</text></svg>`;
    if (held) { const again = root.querySelector(`.node[data-node="${held}"]`); if (again) again.focus(); }
    root.querySelector("output").textContent = state.least.toFixed(3);
  }
  const chip = kind => `<b class="kind k-${kinds[kind]}">${kinds[kind]}</b>`;
  function table(title, rows, whole) {
    const box = make("div"), body = make("tbody"), kept = rows.slice(0, 6), size = Math.max(...kept.map(row => Math.abs(row[2])), 1e-9);
    const rest = whole - kept.reduce((sum, row) => sum + row[2], 0);
    kept.forEach(([name, kind, value]) => { const mark = make("span"); mark.innerHTML = chip(kind); body.append(rowOf([[cut(name, 26)], [mark], [short(value), "number"], [meter(value, size, true), "wide"]])); });
    if (Math.abs(rest) > 0.005) body.append(rowOf([["all others"], [""], [short(rest), "number"], [""]]));
    const sheet = make("table");
    sheet.append(body);
    box.append(make("h5", "", title), sheet);
    return box;
  }
  function looks(node) {
    const box = make("div"), body = make("tbody");
    node.patterns[0].map((here, s) => [s, here, node.patterns[1][s]]).sort((a, b) => Math.max(b[1], b[2]) - Math.max(a[1], a[2])).slice(0, 5)
      .forEach(([s, here, there]) => body.append(rowOf([[cut(token(s), 22)], [Math.round(100 * here) + " %", "number"], [meter(here, 1, false), "wide"], [Math.round(100 * there) + " %", "number"], [meter(there, 1, false), "wide"]])));
    const sheet = make("table");
    sheet.append(body);
    box.append(make("h5", "", "Looks at: first text, second text"), sheet);
    return box;
  }
  function tell() {
    const about = at("about"), i = state.chosen, node = nodes[i];
    about.replaceChildren();
    if (!node) return;
    const bySize = rows => rows.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
    const label = key => key < nodes.length ? nodes[key].name + " at " + token(nodes[key].at) : token(key - nodes.length);
    about.append(make("h4", "", (node.kind === "head" ? "Head " : "") + node.name + " at " + token(node.at) + ": " + short(node.value)));
    if (node.kind === "head") about.append(table("Reads", bySize(node.moves.map(([s, kind, value]) => [token(s), kind, value])), node.value), looks(node));
    about.append(table("Comes from", bySize(facts.edges.filter(edge => edge[1] === i).map(edge => [label(edge[0]), edge[2], edge[3]])), node.value));
    about.append(table("Goes to", bySize(facts.edges.filter(edge => edge[0] === i).map(edge => [edge[1] === nodes.length ? "the logit" : label(edge[1]), edge[2], edge[3]])), node.value));
    about.append(make("p", "", "What it writes more of in the first text raises " + node.raises.join(" ") + " and lowers " + node.lowers.join(" ") + "."));
  }
  function choose(i) { state.chosen = i; draw(); tell(); }
  function setLeast() { state.least = +slider.value >= 100 ? 0 : most * 0.001 ** (slider.value / 100); }
  const key = target => { const box = target.closest && target.closest("[data-node]"); return box ? +box.dataset.node : undefined; };
  at("scroll").addEventListener("click", e => { const i = key(e.target); if (i !== undefined) choose(i); });
  at("scroll").addEventListener("keydown", e => { const i = key(e.target); if (i !== undefined && ["Enter", " "].includes(e.key)) { e.preventDefault(); choose(i); } });
  slider.addEventListener("input", () => { setLeast(); draw(); });
  at("legend").innerHTML = `<svg width="44" height="12"><path class="band plus" d="M2 1H42V11H2Z"/></svg> stands here; dashed: against. Moved by ` + kinds.slice(0, 3).map((_, kind) => chip(kind)).join(" ") + `; into MLPs by ` + chip(3) + ` and by what it opens, ` + chip(4) + `. Width is the size. Click a head (23.4) or MLP (m20) for what it reads and writes.`;
  setLeast();
  draw();
  tell();
  at("scroll").scrollLeft = at("scroll").scrollWidth;
};
