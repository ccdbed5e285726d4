// All paths to one logit over chosen nodes: tokens as columns, layers as rows, edges by what they carry.
VIEWERS.pathGraph = (root, facts) => {
  root.innerHTML = `
<h5>Paths from the tokens to the logit</h5>
<p>An edge carries all paths that pass its two ends one after the other, so that what enters a node leaves it, and the edges into the logit add up to it. Hover or focus a node to read it; click it or press Enter to see what comes in, what goes out, and why it is open.</p>
<div class="choices" role="radiogroup" aria-label="Nodes of the graph"></div>
<label class="slider">Edges of at least <output></output><input type="range" min="0" max="100" step="1"></label>
<p class="shares" role="status"></p>
<p class="legend"></p>
<p class="told" aria-live="polite"></p>
<div class="beside">
<div class="scroll" role="region" aria-label="Graph of paths: columns are tokens, rows are layers" tabindex="0"></div>
<div class="about" hidden></div>
</div>`;
  const at = name => root.querySelector("." + name), slider = root.querySelector("input[type=range]");
  const escape = text => text.replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const short = x => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(2);
  const percent = x => Math.round(100 * x) + " %";
  const token = i => facts.tokens[i] + " (" + i + ")";
  const state = { graph: 0, least: 0, chosen: null };
  let graph, places;
  const inside = key => key < graph.nodes.length;
  const node = key => facts.nodes[graph.nodes[key]];
  const begin = key => key < graph.nodes.length ? key : "s" + (key - graph.nodes.length);
  const end = key => key < graph.nodes.length ? key : "logit";
  function label(key) {
    if (key === "logit") return "the logit";
    if (typeof key === "string") return +key.slice(1) === facts.tokens.length ? "biases" : (key === "s0" && facts.sink ? "sink " : "") + token(+key.slice(1));
    return node(key).name + " at " + token(node(key).at);
  }
  const ends = edge => [begin(edge[0]), end(edge[1])];
  const shown = () => graph.edges.filter(edge => Math.abs(edge[2]) >= state.least);

  function place() {
    const widths = facts.tokens.map(text => Math.max(46, 7 * Math.min(text.length, 9) + 14));
    const rows = [...new Set(graph.nodes.map(i => facts.nodes[i].row))].sort((a, b) => a - b), cells = {};
    graph.nodes.forEach((i, key) => { const n = facts.nodes[i], cell = n.at + "|" + n.row; (cells[cell] = cells[cell] || []).push(key); });
    const wide = key => 7 * node(key).label.length + 10;
    for (const [cell, keys] of Object.entries(cells)) {
      const t = +cell.split("|")[0];
      widths[t] = Math.max(widths[t], keys.reduce((sum, key) => sum + wide(key) + 5, 5));
    }
    const biases = graph.edges.some(edge => begin(edge[0]) === "s" + facts.tokens.length);
    const left = 64 + (biases ? 50 : 0), starts = [left];
    widths.forEach((w, i) => starts.push(starts[i] + w));
    const height = 46 + 34 * (rows.length + 1) + 34, y = row => height - 60 - 34 * (row + 1);
    places = { width: starts[widths.length] + 8, height, rows: rows.map((row, i) => [row, y(i)]), nodes: {} };
    facts.tokens.forEach((_, i) => { places.nodes["s" + i] = [(starts[i] + starts[i + 1]) / 2, height - 46, widths[i] - 6]; });
    if (biases) places.nodes["s" + facts.tokens.length] = [left - 24, height - 46, 40];
    const mid = (starts[facts.position] + starts[facts.position + 1]) / 2;
    places.nodes.logit = [Math.min(mid, places.width - 52), 20, 96];
    for (const [cell, keys] of Object.entries(cells)) {
      const [t, row] = cell.split("|").map(Number), total = keys.reduce((sum, key) => sum + wide(key) + 5, -5);
      let x = (starts[t] + starts[t + 1] - total) / 2;
      keys.forEach(key => { places.nodes[key] = [x + wide(key) / 2, y(rows.indexOf(row)), wide(key)]; x += wide(key) + 5; });
    }
  }
  function curve(edge) {
    const [from, to] = ends(edge).map(key => places.nodes[key]);
    const [x1, y1, x2, y2] = [from[0], from[1] - 11, to[0], to[1] + 11], bend = Math.max(16, (y1 - y2) / 2);
    // One that stays in its column bows past the nodes between its ends.
    const bow = Math.abs(x1 - x2) < 40 && y1 - y2 > 40 ? Math.min(90, 12 + (y1 - y2) / 5) : 0;
    return { path: `M${x1} ${y1}C${x1 - bow} ${y1 - bend} ${x2 - bow} ${y2 + bend} ${x2} ${y2}`, x: (x1 + x2) / 2 - 0.75 * bow, y: (y1 + y2) / 2 };
  }
  function told(key) {
    const flows = graph.edges.filter(edge => ends(edge).includes(key));
    if (key === "logit") return "The logit of " + facts.chosen + ": " + short(facts.logit) + ".";
    if (typeof key === "string") return label(key) + (key === "s" + facts.tokens.length ? " give " : " gives ") + short(graph.sources[+key.slice(1)]) + " in all.";
    const n = node(key), parts = [label(key) + " carries " + short(n.value)];
    if (n.looks.length) parts.push("it looks at " + n.looks.slice(0, 3).map(([s, weight, moved]) => token(s) + " " + percent(weight) + " and moves " + short(moved) + " from there").join(", "));
    const reads = flows.filter(edge => end(edge[1]) === key).slice(0, 3).map(edge => label(begin(edge[0])) + " " + short(edge[2]));
    if (reads.length) parts.push("it reads " + reads.join(", "));
    if (n.raises.length) parts.push("what it writes raises " + n.raises.join(" ") + " and lowers " + n.lowers.join(" "));
    return parts.join("; ") + ".";
  }
  function draw() {
    const edges = shown(), most = Math.abs(graph.edges[0][2]), live = new Set(edges.flatMap(ends));
    const lines = [...edges].reverse().map(edge => {
      const { path, x, y } = curve(edge), thick = Math.max(0.7, 11 * Math.abs(edge[2]) / most);
      const name = label(ends(edge)[0]) + " → " + label(ends(edge)[1]) + " " + short(edge[2]) + (edge[3] ? ", on a proven path" : "");
      return `<g class="edge ${edge[2] < 0 ? "minus" : "plus"}" data-ends="${ends(edge).join(" ")}"><title>${escape(name)}</title><path d="${path}" stroke-width="${thick.toFixed(2)}"/>${edge[3] ? `<path class="proven" d="M${x} ${y - 5}l5 5l-5 5l-5 -5z"/>` : ""}</g>`;
    });
    const layers = places.rows.map(([row, y]) => `<text class="layer" x="4" y="${y + 4}">${row % 1 ? "MLP " : "layer "}${Math.floor(row)}</text><path class="rule" d="M56 ${y}H${places.width}"/>`);
    const [middle, low, span] = places.nodes.s0;
    if (facts.sink) layers.push(`<rect class="sink" x="${middle - span / 2}" y="40" width="${span}" height="${low - 40}"/>`);
    const order = ["logit", ...Object.keys(places.nodes).filter(key => /^\d/.test(key)).sort((a, b) => places.nodes[a][1] - places.nodes[b][1] || places.nodes[a][0] - places.nodes[b][0]), ...Object.keys(places.nodes).filter(key => key[0] === "s")];
    const boxes = order.map(name => {
      const key = /^\d/.test(name) ? +name : name, [x, y, w] = places.nodes[name];
      const source = typeof key === "string" && key !== "logit", index = source ? +key.slice(1) : 0, kind = typeof key === "number" ? node(key).kind : "end";
      const text = key === "logit" ? facts.chosen.slice(0, 9) + " " + short(facts.logit) : source ? (index < facts.tokens.length ? index === 0 && facts.sink ? "sink" : (facts.tokens[index].length > 9 ? facts.tokens[index].slice(0, 8) + "…" : facts.tokens[index]) : "bias") : node(key).label;
      const sub = source && index < facts.tokens.length ? `<text class="layer" x="${x}" y="${y + 24}" text-anchor="middle">${index}</text>` : "";
      return `<g class="node ${kind}${live.has(key) ? "" : " idle"}" data-key="${name}" tabindex="0" role="button" aria-pressed="${state.chosen === key}" aria-label="${escape(told(key))}"><rect x="${x - w / 2}" y="${y - 11}" width="${w}" height="22" rx="${kind === "unit" ? 11 : kind === "head" ? 4 : 0}"/><text x="${x}" y="${y + 4}" text-anchor="middle">${escape(text)}</text>${sub}</g>`;
    });
    const held = root.contains(document.activeElement) && document.activeElement.dataset.key;
    at("scroll").innerHTML = `<svg width="${places.width}" height="${places.height}" viewBox="0 0 ${places.width} ${places.height}">${layers.join("")}${lines.join("")}${boxes.join("")}</svg>`;
    if (held !== undefined && held !== false) { const again = root.querySelector(`[data-key="${held}"]`); if (again) again.focus(); }
    const sum = list => list.reduce((total, edge) => total + edge[2], 0), size = list => list.reduce((total, edge) => total + Math.abs(edge[2]), 0);
    const into = edges.filter(edge => end(edge[1]) === "logit");
    at("shares").textContent = `${edges.length} of ${graph.all.count} edges. Of the logit they show ${short(sum(into))} of ${short(graph.all.into)} (${percent(sum(into) / (graph.all.into || 1))}); of the absolute sum of the edges into it ${size(into).toFixed(2)} of ${graph.all.intoSize.toFixed(2)} (${percent(size(into) / (graph.all.intoSize || 1))}), of that of all edges ${size(edges).toFixed(1)} of ${graph.all.size.toFixed(1)} (${percent(size(edges) / (graph.all.size || 1))}).`;
    root.querySelector("output").textContent = state.least.toFixed(3);
    slider.setAttribute("aria-valuetext", "edges of at least " + state.least.toFixed(3) + ", " + edges.length + " shown");
  }
  function light(key) {
    root.querySelectorAll(".edge").forEach(edge => edge.classList.toggle("dim", key !== null && !edge.dataset.ends.split(" ").includes(String(key))));
    root.querySelectorAll(".node").forEach(box => box.classList.toggle("here", key !== null && box.dataset.key === String(key)));
    if (key !== null) at("told").textContent = told(key);
  }
  function table(title, note, rows, whole) {
    const box = make("div"), most = Math.max(...rows.map(row => Math.abs(row[1])), 1e-9), body = make("tbody");
    box.append(make("h5", "", title));
    if (note) box.append(make("p", "", note));
    rows.forEach(([name, value]) => body.append(rowOf([[name], [short(value), "number"], [meter(value, most, true), "wide"]])));
    if (whole) { const last = rowOf([[whole[0]], [short(whole[1]), "number"], [""]]); last.className = "sum"; body.append(last); }
    const sheet = make("table");
    sheet.append(body);
    box.append(sheet);
    return box;
  }
  function cut(rows, name, whole) {
    const kept = rows.slice(0, 7), rest = whole - kept.reduce((sum, row) => sum + row[1], 0);
    return [...kept, [name, rest]];
  }
  function choose(key) {
    state.chosen = state.chosen === key ? null : key;
    root.querySelectorAll(".node").forEach(box => box.setAttribute("aria-pressed", state.chosen !== null && box.dataset.key === String(state.chosen)));
    at("about").hidden = state.chosen === null;
    at("about").replaceChildren();
    light(state.chosen);
    if (state.chosen === null) return;
    const edges = graph.edges.filter(edge => ends(edge).includes(key)), parts = [];
    const incoming = edges.filter(edge => end(edge[1]) === key).map(edge => [label(begin(edge[0])), edge[2]]);
    const outgoing = edges.filter(edge => begin(edge[0]) === key).map(edge => [label(end(edge[1])), edge[2]]);
    const through = typeof key === "number" ? node(key).value : key === "logit" ? graph.all.into : graph.sources[+key.slice(1)];
    if (incoming.length) parts.push(table("Comes into " + label(key), "", cut(incoming, "all other edges", through), ["carried", through]));
    if (outgoing.length) parts.push(table("Goes out of " + label(key), "", cut(outgoing, "all other edges", through), ["carried", through]));
    if (typeof key === "number") node(key).why.forEach(why => parts.push(table(why.title, why.note, cut(why.parts.map(([from, value]) => [from, value]), "all others, and biases", why.value), ["together", why.value])));
    at("about").append(...parts);
  }
  function setLeast(value) {
    const sizes = graph.edges.map(edge => Math.abs(edge[2])), most = sizes[0], least = Math.max(sizes[sizes.length - 1], 1e-4 * most);
    state.least = value >= 100 ? 0 : most * (least / most) ** (value / 100);
  }
  function open(i) {
    state.graph = i;
    state.chosen = null;
    graph = facts.graphs[i];
    at("about").hidden = true;
    at("told").textContent = "";
    place();
    const size = Math.abs(graph.edges[Math.min(60, graph.edges.length) - 1][2]);
    let value = 0;
    for (setLeast(0); value < 100 && state.least > size; setLeast(++value));
    slider.value = value;
    draw();
    at("scroll").scrollLeft = at("scroll").scrollWidth;
  }
  facts.graphs.forEach((each, i) => {
    const choice = make("label"), radio = make("input");
    Object.assign(radio, { type: "radio", name: "graph", checked: i === 0 });
    radio.addEventListener("change", () => open(i));
    choice.append(radio, " " + each.title);
    at("choices").append(choice);
  });
  at("choices").hidden = facts.graphs.length < 2;
  slider.addEventListener("input", () => { setLeast(+slider.value); draw(); light(state.chosen); });
  const keyOf = target => { const box = target.closest && target.closest(".node"); return box ? (/^\d/.test(box.dataset.key) ? +box.dataset.key : box.dataset.key) : undefined; };
  const scroll = at("scroll");
  for (const event of ["mouseover", "focusin"]) scroll.addEventListener(event, e => { const key = keyOf(e.target); if (key !== undefined) light(key); });
  for (const event of ["mouseout", "focusout"]) scroll.addEventListener(event, e => { if (keyOf(e.target) !== undefined) light(state.chosen); });
  scroll.addEventListener("click", e => { const key = keyOf(e.target); if (key !== undefined) choose(key); });
  scroll.addEventListener("keydown", e => {
    const key = keyOf(e.target);
    if (key === undefined || !["Enter", " ", "Escape"].includes(e.key)) return;
    e.preventDefault();
    if (e.key !== "Escape") choose(key);
    else if (state.chosen !== null) choose(state.chosen);
  });
  at("legend").innerHTML = `<svg width="44" height="12"><path class="sample plus" d="M2 6H42"/></svg> raises the logit <svg width="44" height="12"><path class="sample minus" d="M2 6H42"/></svg> lowers it; thickness is the size. <svg width="12" height="12"><path class="proven" d="M6 1l5 5l-5 5l-5 -5z"/></svg> ${escape(facts.proof)} Square: head; round: neuron.`;
  open(0);
};
