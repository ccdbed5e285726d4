// One prediction: attention over the text, what each head writes, direct effects, and paths.
VIEWERS.explanation = (root, facts) => {
  root.innerHTML = `
<p class="first"></p>
<div class="graph"></div>
<h5>Where heads look</h5>
<p>Hover or focus a token to see where each head looks from there and what it writes; choose a path to light up its heads.</p>
<div class="text"></div>
<p class="status" role="status"></p>
<div class="columns">
<div><h5>Heads that matter</h5>
<p>Where each head looks from the chosen token, and below that, which next tokens it speaks for (▲) and against (▼) there. Choose a head to see its attention above.</p>
<div class="heads-list"></div></div>
<div><h5>Next token</h5>
<table><thead><tr><th>token</th><th class="number">probability</th><th></th><th class="number">logit</th></tr></thead><tbody class="next"></tbody></table></div>
<div><h5>Largest paths to the logit</h5>
<p class="paths-note"></p>
<div class="paths"></div><table><tbody class="path-sums"></tbody></table></div>
<div><h5>Direct effects</h5>
<p>What each component adds to the logit itself, wherever that came from; all of them and the bias make the logit. Striped bars are negative.</p>
<table><tbody class="effects"></tbody></table>
<button class="row more" type="button"></button></div>
</div>`;
  const at = name => root.querySelector("." + name);
  at("first").textContent = facts.from;
  at("graph").hidden = facts.graph === null;
  if (facts.graph !== null) VIEWERS.pathGraph(at("graph"), facts.graph);
  const state = { token: facts.position, head: facts.heads.length ? facts.heads[0] : null, path: null, all: false };
  const SHORT = 16;
  const pattern = (head, from) => facts.patterns[facts.heads.indexOf(head)][from];
  const named = i => facts.tokens[i] + " (" + i + ")";
  function looks(head, from) {
    return pattern(head, from).map((weight, i) => [weight, i]).filter(pair => pair[0] >= 0.01)
      .sort((a, b) => b[0] - a[0]).slice(0, 3)
      .map(([weight, i]) => named(i) + " " + Math.round(100 * weight) + " %").join(", ") || "spread below 1 %";
  }
  function writes(head, from) {
    const told = facts.writes[facts.heads.indexOf(head)][from];
    const part = (mark, pairs) => mark + " " + pairs.map(([token, value]) => token + " " + minus(value.toFixed(1))).join(", ");
    const up = told.filter(pair => pair[1] > 0), down = told.filter(pair => pair[1] < 0);
    return [up.length ? part("▲", up) : "", down.length ? part("▼", down) : ""].filter(Boolean).join("  ") || "nothing";
  }
  function drawTokens() {
    const weights = state.head === null ? null : pattern(state.head, state.token);
    [...at("text").children].forEach((button, i) => {
      button.classList.toggle("here", i === state.token);
      button.setAttribute("aria-pressed", i === state.token);
      const weight = weights === null ? 0 : weights[i];
      button.querySelector(".bar").style.width = Math.round(100 * weight) + "%";
      button.style.backgroundColor = "rgba(var(--look)," + (0.55 * weight).toFixed(3) + ")";
      button.querySelector("small").textContent = weight >= 0.005 ? Math.round(100 * weight) + " %" : "";
    });
    at("status").textContent = state.head === null ? "From " + named(state.token) + "."
      : "Head " + state.head + " at " + named(state.token) + " looks at " + looks(state.head, state.token) + "; it writes " + writes(state.head, state.token) + ".";
  }
  function drawHeads() {
    const chosen = state.path === null ? [] : facts.paths.rows[state.path].heads;
    [...at("heads-list").children].forEach((row, i) => {
      const head = facts.heads[i], [look, write] = row.querySelector("span").children;
      row.setAttribute("aria-pressed", head === state.head);
      row.classList.toggle("lit", chosen.includes(head));
      row.classList.toggle("dim", state.path !== null && !chosen.includes(head));
      look.textContent = looks(head, state.token);
      write.textContent = writes(head, state.token);
    });
    [...at("paths").children].forEach((row, i) => row.setAttribute("aria-pressed", i === state.path));
  }
  function draw() { drawTokens(); drawHeads(); }
  function choosePath(i) {
    state.path = state.path === i ? null : i;
    const heads = state.path === null ? [] : facts.paths.rows[i].heads;
    if (heads.length) state.head = heads[heads.length - 1];
    draw();
  }
  facts.tokens.forEach(token => {
    const button = make("button", "token", token);
    button.type = "button";
    button.append(make("i", "bar"), make("small"));
    at("text").append(button);
  });
  toolbar(at("text"), "Tokens of the text", i => { state.token = i; draw(); });
  [...at("text").children].forEach((button, i) => { button.tabIndex = i === state.token ? 0 : -1; });
  const effectOf = Object.fromEntries(facts.effects.filter(e => e.head !== null).map(e => [e.head, e.value]));
  facts.heads.forEach(head => {
    const row = make("button", "row"), said = make("span");
    row.type = "button";
    said.append(make("span"), make("span"));
    row.append(make("b", "", head), said, make("em", "", signed(effectOf[head])));
    row.addEventListener("click", () => { state.head = head; draw(); });
    at("heads-list").append(row);
  });
  if (facts.paths === null) {
    at("paths-note").textContent = "None searched: ask for them (--paths 10, or n_paths=10).";
  } else {
    // Rounded up, since it is a bound.
    const paths = facts.paths, bound = (1.005 * paths.bound).toPrecision(3);
    at("paths-note").textContent = (paths.complete
      ? "Proven: no path left out is larger than " + bound + ", so that these are the largest."
      : "The search ended early; a path left out may add up to " + bound + ".") + " Choose a path to light up its heads.";
    paths.rows.forEach((path, i) => {
      const row = make("button", "row");
      row.type = "button";
      row.append(make("span", "", path.name), make("em", "", signed(path.value)));
      row.addEventListener("click", () => choosePath(i));
      at("paths").append(row);
    });
    const sums = [["these paths", paths.found], ["all others", paths.rest], ["bias", paths.bias]];
    sums.forEach(([name, value]) => at("path-sums").append(rowOf([[name], [signed(value), "number"]])));
    const whole = rowOf([["logit"], [signed(facts.logit), "number"]]);
    whole.className = "sum";
    at("path-sums").append(whole);
  }
  const most = Math.max(...facts.effects.map(e => Math.abs(e.value)), Math.abs(facts.bias));
  const effect = e => rowOf([[e.name], [signed(e.value), "number"], [meter(e.value, most, true), "wide"]]);
  function drawEffects() {
    const shown = state.all ? facts.effects : facts.effects.slice(0, SHORT), rest = facts.effects.slice(shown.length);
    const rows = [...shown];
    if (rest.length) rows.push({ name: rest.length + " others", value: rest.reduce((sum, e) => sum + e.value, 0) });
    rows.push({ name: "bias", value: facts.bias });
    at("effects").replaceChildren(...rows.map(effect));
    const whole = rowOf([["logit"], [signed(facts.logit), "number"], ["rounding " + facts.remainder.toExponential(1)]]);
    whole.className = "sum";
    at("effects").append(whole);
    at("more").hidden = facts.effects.length <= SHORT;
    at("more").textContent = state.all ? "Show the largest only" : "Show all " + facts.effects.length + " components";
  }
  at("more").addEventListener("click", () => { state.all = !state.all; drawEffects(); });
  drawEffects();
  facts.next.forEach(row => at("next").append(rowOf([[make("code", "", row.token)], [(100 * row.prob).toFixed(2) + " %", "number"], [meter(row.prob, facts.next[0].prob, false), "wide"], [signed(row.logit), "number"]])));
  draw();
};
