// The page: text cut at the slider's size, tables, charts and theme. Data reach the document as text alone.

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const byId = (id) => document.getElementById(id);
const RTL = /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const UNSEEN = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/gu;
const CLASSES = [10000, 1000, 100, 10, 0]; // least counts of the five colours

/** An element with properties, children as text or nodes. `value` is kept beside what is shown, as JSON. */
function element(name, { value, ...properties } = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  if (value !== undefined) made.dataset.value = JSON.stringify(value);
  made.append(...children);
  return made;
}

/** The text with what cannot be seen, or would reorder its surroundings, spelled out; a lone mark gets a circle. */
function visible(text) {
  const seen = text.replace(UNSEEN, (char) => `⟨U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
  return /^\p{M}/u.test(seen) ? "◌" + seen : seen;
}

/** A token as an isolated element, its marker dimmed. */
function tokenText(token, marker) {
  const ended = marker === "suffix" && token.endsWith("</w>");
  const started = marker !== "suffix" && token.startsWith("▁");
  const body = ended ? token.slice(0, -4) : started ? token.slice(1) : token;
  const sign = element("span", { className: "marker" }, ended ? "</w>" : started ? "▁" : "");
  return element("bdi", {}, ...(started ? [sign, visible(body)] : [visible(body), sign]));
}

/** Counts at every size, rebuilt from the changes between sizes, and what the vocabulary of the size makes of them. */
function makeSizes(slider, merges) {
  const nTokens = merges.tokens.length, made = new Map();
  return (index, splits) => {
    const key = `${index} ${splits}`;
    if (!made.has(key)) {
      let counts = new Float64Array(nTokens);
      slider.changes.slice(0, index + 1).forEach(([tokens, now]) => tokens.forEach((token, i) => (counts[token] = now[i])));
      const dropped = new Set(splits ? slider.dropped[index] : []);
      counts = countsOfKept(counts, dropped, merges);
      made.set(key, { dropped, counts, ordered: counts.slice().sort(), nMerges: slider.n_merges[index] });
    }
    return made.get(key);
  };
}

/** 1 + the number of tokens with a greater count. */
function rankOfCount(count, ordered) {
  let low = 0, high = ordered.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ordered[middle] > count) high = middle;
    else low = middle + 1;
  }
  return ordered.length - low + 1;
}

function makeCutter(data, slider) {
  const merges = makeMerges(data.tokens.token, slider.merges, slider.n_atoms), sizeAt = makeSizes(slider, merges);
  const range = byId("size"), splits = byId("splits"), own = byId("own"), detail = byId("detail");
  const lines = [...document.querySelectorAll("#samples .line")], ownLine = byId("own-line");

  function pieceElement(piece, size, first) {
    const known = typeof piece !== "string", token = known ? merges.tokens[piece] : piece;
    const count = known ? size.counts[piece] : 0;
    const about = known
      ? `count ${grouped.format(count)}, rank ${grouped.format(rankOfCount(count, size.ordered))}`
      : "not in the vocabulary: unknown";
    const ended = slider.marker === "suffix" && token.endsWith("</w>");
    const shown = visible(ended ? token.slice(0, -4) : token);
    const tone = known ? CLASSES.findIndex((least) => count >= least) : "x";
    const made = element("bdi", { className: `piece f${tone}`, title: `${visible(token)}: ${about}`, tabIndex: first ? 0 : -1 }, shown);
    made.dataset.piece = token;
    return made;
  }
  function fill(line, words, size) {
    const cut = words.map((word) => splitBack(mergeWord(word, slider.marker, merges, size.nMerges), size.dropped, merges));
    const box = line.querySelector(".pieces"), spaced = !slider.keeps_spaces;
    box.dir = RTL.test(words.join("")) ? "rtl" : "ltr";
    let first = true;
    box.replaceChildren(...cut.flatMap((pieces) => {
      const word = element("span", { className: "word" });
      for (const piece of pieces) word.append(pieceElement(piece, size, first)), (first = false);
      return spaced ? [word, " "] : [word];
    }));
    const total = cut.reduce((sum, pieces) => sum + pieces.length, 0);
    const shown = line.querySelector(".total");
    shown.dataset.value = total;
    shown.textContent = `${grouped.format(total)} piece${total === 1 ? "" : "s"}`;
    return total;
  }
  function show() {
    const index = Number(range.value), size = sizeAt(index, splits.checked), n = slider.sizes[index];
    const total = lines.reduce((sum, line, i) => sum + fill(line, slider.samples[i], size), 0);
    if (slider.typeable) fill(ownLine, splitText(own.value, slider.normalizer, slider.pretokenizer), size);
    const kept = n - size.dropped.size;
    byId("size-shown").textContent = grouped.format(n);
    byId("size-shown").dataset.value = n;
    byId("sample-total").textContent = grouped.format(total);
    byId("sample-total").dataset.value = total;
    byId("kept-shown").textContent = `${grouped.format(kept)} kept, ${grouped.format(n - kept)} scaffolding`;
    range.setAttribute("aria-valuetext", `${grouped.format(n)} tokens`);
    for (const button of document.querySelectorAll("[data-jump]"))
      button.setAttribute("aria-pressed", String(Number(button.dataset.jump) === index));
  }
  function tell(event) {
    if (!event.target.classList.contains("piece")) return;
    detail.textContent = event.target.title;
  }
  function walk(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || !event.target.classList.contains("piece")) return;
    const pieces = [...event.currentTarget.querySelectorAll(".piece")], turn = event.currentTarget.dir === "rtl" ? -1 : 1;
    const at = pieces.indexOf(event.target) + (Number.isFinite(step) ? step * turn : step);
    const to = pieces[Math.max(0, Math.min(pieces.length - 1, at))];
    event.target.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
    event.preventDefault();
  }
  range.addEventListener("input", show);
  splits.addEventListener("change", show);
  own?.addEventListener("input", show);
  for (const box of document.querySelectorAll(".pieces")) {
    box.addEventListener("keydown", walk);
    for (const name of ["focusin", "pointerover", "click"]) box.addEventListener(name, tell);
  }
  for (const button of document.querySelectorAll("[data-jump]"))
    button.addEventListener("click", () => ((range.value = button.dataset.jump), show()));
  show();
  prepare(slider.sizes.keys());

  function prepare(rest) { // every size's counts while nothing else is to be done, so that the slider need not wait
    const { value, done } = rest.next();
    if (done) return;
    sizeAt(value, splits.checked);
    setTimeout(prepare, 10, rest);
  }
}

/** Vega's tooltip without its mark-up: names and values, as text. */
function tooltip(_, event, __, value) {
  const box = byId("tooltip");
  box.hidden = !value;
  if (!value) return;
  const rows = typeof value === "object" ? Object.entries(value) : [["", value]];
  box.replaceChildren(...rows.map(([name, text]) => element("div", {}, element("b", {}, visible(name)), " ", visible(String(text)))));
  const left = Math.min(event.clientX + 12, document.documentElement.clientWidth - box.offsetWidth - 8);
  box.style.left = `${Math.max(8, left)}px`;
  box.style.top = `${event.clientY + 16}px`;
}

async function drawCharts({ config, charts }) {
  const options = { actions: false, ast: true, config, defaultStyle: false, renderer: "svg", tooltip };
  for (const [name, spec] of Object.entries(charts)) {
    const box = byId(`chart-${name}`);
    const { view } = await vegaEmbed(box, { ...spec, width: "container" }, options);
    const spread = () => spreadLabels(box);
    view.addSignalListener("width", () => setTimeout(spread)); // which draws the labels where they were
    spread();
  }
}

/** Put each label of a chart into the first line where it overlaps none before it. */
function spreadLabels(box) {
  const placed = [], gap = 6;
  const overlap = (a, b) => a.left < b.right + gap && b.left < a.right + gap && a.top < b.bottom && b.top < a.bottom;
  for (const label of box.querySelectorAll(".mark-text.role-mark text")) {
    const x = label.getAttribute("transform").split(/[(,]/)[1];
    let y = 10, area;
    do {
      label.setAttribute("transform", `translate(${x},${y})`);
      area = label.getBoundingClientRect();
      y += 14;
    } while (placed.some((other) => overlap(area, other)));
    placed.push(area);
  }
}

function makeTheme(button) {
  const names = ["auto", "light", "dark"], root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("volt-theme"); } catch { return null; } };
  const store = (name) => { try { localStorage.setItem("volt-theme", name); } catch { /* a file may have no storage */ } };
  const apply = (name) => {
    root.dataset.theme = name;
    button.textContent = `Theme: ${name}`;
  };
  button.addEventListener("click", () => {
    const next = names[(names.indexOf(root.dataset.theme) + 1) % names.length];
    apply(next);
    store(next);
  });
  apply(names.includes(stored()) ? stored() : "auto");
}

makeTheme(byId("theme"));
document.querySelectorAll("table.sortable").forEach(makeSortable);
const data = read("comparison"), slider = read("slider");
makeTokenTable(byId("tokens"), data.tokens, ["token", "count", "rank", "length", "appears", "peak", "peak_count", "scaffolding"], slider.marker);
makeCutter(data, slider);
drawCharts(read("charts")).then(() => (document.documentElement.dataset.ready = "yes"));
