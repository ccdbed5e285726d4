// Attention of all heads of one run: choose a destination in the text, and a head.
VIEWERS.attention = (root, facts) => {
  root.innerHTML = `<div class="heads"></div><div class="text"></div><p class="status" role="status"></p>`;
  const at = name => root.querySelector("." + name);
  const state = { head: 0, token: facts.tokens.length - 1 };
  // A row of a causal head ends at its own position; all that is left out is zero.
  const weight = (from, to) => (facts.patterns[state.head][from][to] || 0) / 100;
  const named = i => facts.tokens[i] + " (" + i + ")";
  function draw() {
    [...at("text").children].forEach((button, i) => {
      const share = weight(state.token, i);
      button.classList.toggle("here", i === state.token);
      button.setAttribute("aria-pressed", i === state.token);
      button.querySelector(".bar").style.width = Math.round(100 * share) + "%";
      button.style.backgroundColor = "rgba(var(--look)," + (0.55 * share).toFixed(3) + ")";
      button.querySelector("small").textContent = share >= 0.005 ? Math.round(100 * share) + " %" : "";
    });
    [...root.querySelectorAll(".heads button")].forEach((button, i) => button.setAttribute("aria-pressed", i === state.head));
    const looks = facts.tokens.map((_, i) => [weight(state.token, i), i]).filter(pair => pair[0] >= 0.01).sort((a, b) => b[0] - a[0]).slice(0, 5);
    at("status").textContent = "Head " + facts.heads[state.head] + " at " + named(state.token) + " looks at "
      + (looks.map(([share, i]) => named(i) + " " + Math.round(100 * share) + " %").join(", ") || "nothing above 1 %") + ".";
  }
  const layers = {};
  facts.heads.forEach((head, i) => {
    const layer = head.split(".")[0];
    if (!layers[layer]) {
      layers[layer] = make("div");
      layers[layer].append(make("span", "", "layer " + layer));
      at("heads").append(layers[layer]);
    }
    const button = make("button", "", head);
    button.type = "button";
    layers[layer].append(button);
  });
  toolbar(at("heads"), "Heads", i => { state.head = i; draw(); }, false);
  facts.tokens.forEach(token => {
    const button = make("button", "token", token);
    button.type = "button";
    button.append(make("i", "bar"), make("small"));
    at("text").append(button);
  });
  toolbar(at("text"), "Tokens of the text", i => { state.token = i; draw(); });
  draw();
};
