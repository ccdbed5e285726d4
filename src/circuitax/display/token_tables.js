// Skip-trigrams of each head: a source token, the tokens that look back at it, and what it raises.
VIEWERS.tokenTables = (root, facts) => {
  root.innerHTML = `<div class="heads"></div><p class="status" role="status"></p><div class="columns">
<div><h5>Tokens that look back at it</h5><table><thead><tr><th>token</th><th class="number">score</th><th></th></tr></thead><tbody class="destinations"></tbody></table></div>
<div><h5>Next tokens that it raises there</h5><table><thead><tr><th>token</th><th class="number">logit</th><th></th></tr></thead><tbody class="outs"></tbody></table></div></div>`;
  const at = name => root.querySelector("." + name), all = [];
  facts.heads.forEach(head => {
    const group = make("div");
    group.append(make("b", "", "head " + head.name));
    head.rows.forEach(row => {
      const button = make("button", "token", row.source);
      button.type = "button";
      group.append(button);
      all.push([head, row, button]);
    });
    at("heads").append(group);
  });
  const most = name => Math.max(...all.flatMap(([, row]) => row[name].map(pair => pair[1])));
  const widest = { destinations: most("destinations"), outs: most("outs") };
  function show(i) {
    const [head, row] = all[i];
    all.forEach(([, , button], other) => button.setAttribute("aria-pressed", other === i));
    for (const name of ["destinations", "outs"])
      at(name).replaceChildren(...row[name].map(([token, value]) => rowOf([[make("code", "", token)], [value.toFixed(2), "number"], [meter(value, widest[name], value < 0), "wide"]])));
    const [destination] = row.destinations[0], [out] = row.outs[0];
    at("status").textContent = `Head ${head.name}: where ${row.source} stood anywhere before and the text is at ${destination}, it speaks for ${out}: ${row.source} … ${destination} → ${out}.`;
  }
  toolbar(at("heads"), "Source tokens of each head", show);
  show(0);
};
