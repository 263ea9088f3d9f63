"use strict";
// The page shows a board, which the stream /live sends again when it changes. Names come from objects that anyone may
// write. So all text is set as text: the page makes no HTML.

const byId = (id) => document.getElementById(id);

// make returns an element with a class and with children: elements, or texts.
function make(tag, kind, ...children) {
  const e = document.createElement(tag);
  if (kind) e.className = kind;
  e.append(...children.filter((c) => c !== "" && c !== null));
  return e;
}

const list = (lines, kind) => make("ul", kind, ...lines.map((l) => make("li", "", l)));
const notes = (texts) => texts.map((t) => make("p", "note", t));

function table(heads, rows) {
  const head = make("tr", "", ...heads.map((h) => { const th = make("th", "", h); th.scope = "col"; return th; }));
  return make("div", "wide", make("table", "", make("thead", "", head), make("tbody", "", ...rows.map((cells) =>
    make("tr", "", ...cells.map((c) => make("td", "", ...[c].flat())))))));
}

// clock returns a time of the day, with the date if it is another day.
function clock(at) {
  const d = new Date(at);
  return (d.toDateString() === new Date().toDateString() ? "" : d.toLocaleDateString() + " ") + d.toLocaleTimeString();
}

// left says how long a reservation lasts.
function left(until) {
  const s = Math.round((new Date(until) - Date.now()) / 1000);
  if (!until || s <= 0) return "ends now";
  if (s < 90) return s + " s left";
  if (s < 5400) return Math.round(s / 60) + " min left";
  return s < 172800 ? Math.round(s / 3600) + " h left" : Math.round(s / 86400) + " days left";
}

// parse turns an address into a number, and name turns it back.
function parse(ip) {
  if (!ip.includes(":")) return ip.split(".").reduce((n, b) => n * 256n + BigInt(b), 0n);
  const [head, tail] = ip.split("::").map((half) => (half ? half.split(":") : []));
  const groups = tail ? [...head, ...Array(8 - head.length - tail.length).fill("0"), ...tail] : head;
  return groups.reduce((n, g) => n * 65536n + BigInt("0x" + g), 0n);
}

function name(n, six) {
  const parts = Array.from({ length: six ? 8 : 4 }, (_, i) => (n >> BigInt((six ? 16 * (7 - i) : 8 * (3 - i)))) & (six ? 65535n : 255n));
  if (!six) return parts.join(".");
  return parts.map((p) => p.toString(16)).join(":").replace(/\b0(:0)+\b/, ":").replace(/:{3,}/, "::");
}

// addresses lists what a range set draws: all addresses, or only those in use. An address without a known holder has
// the use F, or U where not everything was read.
function addresses(set, partial) {
  if (!set.whole) return set.used;
  const used = new Map(set.used.map((u) => [parse(u.ip), u]));
  return set.ranges.flatMap((r) => Array.from({ length: Number(r.count) }, (_, i) => {
    const n = parse(r.first) + BigInt(i);
    return used.get(n) || { ip: name(n, r.first.includes(":")), use: partial ? "U" : "F" };
  }));
}

// about says a number, and only its size where nobody would read its digits.
const about = (n) => (n < 1000000n ? `${n}` : `about 2^${Math.round(Math.log2(Number(n)))}`);

function describe(a) {
  switch (a.use) {
    case "A": return `${a.ip} attached to ${a.pod}`;
    case "R": return `${a.ip} reserved for ${a.pod}, ${left(a.until)}`;
    case "L": return `${a.ip} lent to ${a.other || "no node yet"} for ${a.pod}`;
    case "D": return `${a.ip} attached to ${a.pod}, but held for ${a.other}`;
    case "F": return `${a.ip} free`;
  }
  return `${a.ip} unknown: not all pods were read`;
}

// Grid draws the addresses of one range set. It has one place in the tab order, and arrow keys move within it.
class Grid {
  constructor(label) {
    this.items = [];
    this.at = 0;
    this.root = make("div", "grid");
    this.root.tabIndex = 0;
    this.root.setAttribute("role", "application");
    this.root.setAttribute("aria-roledescription", "grid of addresses");
    this.root.setAttribute("aria-describedby", "told");
    this.label = label;
    this.root.addEventListener("keydown", (e) => this.key(e));
    this.root.addEventListener("focus", () => this.go(this.at));
    this.root.addEventListener("blur", () => this.mark(false));
    this.root.addEventListener("mouseover", (e) => { const i = this.indexOf(e.target); if (i >= 0) this.tell(i); });
    this.root.addEventListener("click", (e) => { const i = this.indexOf(e.target); if (i >= 0) this.go(i); });
  }

  show(items, counts) {
    this.root.setAttribute("aria-label", `${this.label}: ${counts}`);
    this.items = items;
    this.root.tabIndex = items.length ? 0 : -1;
    const cells = this.root.children;
    while (cells.length > items.length) this.root.lastChild.remove();
    items.forEach((a, i) => {
      let cell = cells[i];
      if (!cell) { cell = make("i", "cell"); cell.ariaHidden = "true"; this.root.append(cell); }
      const sign = { D: "!", F: "·", U: "?" }[a.use] || a.use;
      const fresh = cell.textContent && cell.textContent !== sign;
      if (cell.textContent !== sign) cell.textContent = sign;
      cell.className = `cell ${a.use}${fresh ? " new" : ""}${a.pod && wanted && hits(a.pod) ? " hit" : ""}`;
    });
    this.at = Math.min(this.at, Math.max(items.length - 1, 0));
    if (document.activeElement === this.root) { this.mark(true); this.tell(this.at); }
  }

  indexOf(cell) { return cell.parentNode === this.root ? [...this.root.children].indexOf(cell) : -1; }
  mark(on) {
    for (const c of this.root.querySelectorAll(".on")) c.classList.remove("on");
    const cell = this.root.children[this.at];
    if (on && cell) { cell.classList.add("on"); cell.scrollIntoView({ block: "nearest" }); }
  }
  tell(i) { const text = this.items[i] ? describe(this.items[i]) : "no address in use"; if (byId("told").textContent !== text) byId("told").textContent = text; }
  go(i) { this.at = i; this.mark(true); this.tell(i); }
  key(e) {
    const last = this.items.length - 1, row = getComputedStyle(this.root).gridTemplateColumns.split(" ").length;
    const to = { ArrowRight: this.at + 1, ArrowLeft: this.at - 1, ArrowDown: this.at + row, ArrowUp: this.at - row, Home: 0, End: last }[e.key];
    if (to === undefined || e.ctrlKey || e.altKey || e.metaKey) return;
    e.preventDefault();
    if (to >= 0 && to <= last) this.go(to);
  }
}

// Card shows a node. Its cells are made when the card comes into view.
class Card {
  constructor() { this.root = make("article", "item"); this.grids = []; this.seen = false; this.root.card = this; sight.observe(this.root); }
  text(n) { return n.name + " " + n.networks.flatMap((w) => w.sets.flatMap((s) => s.used.map((u) => u.ip + " " + u.pod))).join(" "); }
  show(n) {
    this.node = n;
    const shape = JSON.stringify([n.name, n.networks.map((w) => [w.name, w.sets.map((s) => [s.ranges, s.whole, s.more])]), n.more]);
    if (shape !== this.shape) this.build(n, shape);
    this.state.textContent = n.state;
    this.state.className = n.state === "Ready" ? "tag good" : "tag bad";
    n.networks.forEach((w, i) => {
      const counts = `${w.attached} attached, ${w.reserved} reserved, ${w.free} free of ${w.total}`;
      const [line, bad, kept] = this.lines[i];
      line.textContent = `${w.name}: ${counts}`;
      bad.replaceChildren(...notes(problemsOf(`Node ${n.name}, network ${w.name}`)));
      const reserved = w.sets[0] ? w.sets[0].used.filter((u) => "RL".includes(u.use)) : [];
      kept.hidden = reserved.length === 0;
      kept.firstChild.textContent = `${reserved.length} reserved or lent`;
      kept.lastChild.replaceChildren(...reserved.map((u) => make("li", "", describe(u))));
    });
    if (this.seen) this.draw();
  }
  build(n, shape) {
    this.shape = shape;
    this.grids = [];
    this.state = make("span", "tag");
    this.lines = [];
    const networks = n.networks.map((w) => {
      const parts = [make("p", ""), make("div", ""), make("details", "", make("summary", ""), make("ul", ""))];
      this.lines.push(parts);
      const grids = w.sets.map((s) => {
        const grid = new Grid(`Addresses of node ${n.name}, network ${w.name}`);
        this.grids.push(grid);
        return make("div", "", make("p", "soft", s.ranges.map((r) => `${r.first} and ${about(BigInt(r.count) - 1n)} more`).join(", ") +
          (s.whole ? "" : ": only addresses in use are drawn") + (s.more ? `, ${s.more} of these are left out` : "")), grid.root);
      });
      return make("div", "", parts[0], parts[1], ...grids, parts[2]);
    });
    this.root.replaceChildren(make("h3", "", n.name), this.state, ...(networks.length ? networks : [make("p", "soft", "no pool of addresses")]),
      n.more ? make("p", "note", `${n.more} networks are left out`) : "");
  }
  draw() {
    const sets = this.node.networks.flatMap((w) => w.sets.map((s) => [s, w]));
    sets.forEach(([s, w], i) => this.grids[i].show(addresses(s, shown.partial), `${w.attached} attached, ${w.reserved} reserved, ${w.free} free`));
  }
}

const sight = new IntersectionObserver((entries) => {
  for (const e of entries) if (e.isIntersecting && !e.target.card.seen) { e.target.card.seen = true; e.target.card.draw(); }
}, { rootMargin: "600px" });

// problemsOf says what needs attention of an object, and of its parts. tags shows it beside the name.
const problemsOf = (object) => shown.needs.filter((n) => n.object === object || n.object.startsWith(object + ", ")).map((n) => `${n.reason}: ${n.message}`);
const tags = (object) => problemsOf(object).map((p) => make("span", "tag bad", p));

// Fold is an item whose contents are made while it is open.
class Fold {
  constructor() {
    this.root = make("details", "item", make("summary", ""), make("div", ""));
    this.root.addEventListener("toggle", () => this.fill());
  }
  show(item) {
    this.item = item;
    this.root.firstChild.replaceChildren(...this.heading(item));
    this.fill();
  }
  fill() { this.root.lastChild.replaceChildren(...(this.root.open ? this.contents(this.item) : [])); }
}

class Workload extends Fold {
  text(w) { return `${w.namespace}/${w.name} ${w.target} ` + w.pods.map((p) => `${p.name} ${p.node} ${p.ips} ${p.recordedNode}`).join(" "); }
  heading(w) {
    return [make("h3", "", `${w.namespace}/${w.name}`), ` ${w.target}: `, make("span", "good", `${w.kept} kept`), `, ${w.moved} moved, ${w.lost} lost`,
      ...tags(`PersistentPodState ${w.namespace}/${w.name}`)];
  }
  contents(w) {
    const rows = w.pods.map((p) => [
      [p.name, make("div", p.state === "Ready" ? "good" : "bad", p.waiting ? `${p.state}: waits, ${p.waiting}` : p.state)],
      [p.node || "no node", make("div", "soft", p.ips)],
      [p.recordedNode || "none", make("div", "soft", p.recordedIPs), make("div", "soft", p.recordedAt ? "since " + clock(p.recordedAt) : ""),
        make("div", "soft", p.lent || ""), make("div", "soft", p.until ? `reserved on ${p.reservedOn}, ${left(p.until)}` : "")],
      p.past.length ? list(p.past.map((h) => make("span", "", `${clock(h.time)} `, make("b", h.bad ? "bad" : ["Kept", "Returned"].includes(h.what) ? "good" : "", h.what), ` ${h.text}`))) : "nothing told",
    ]);
    return [table(["Pod", "Stands on", "Recorded place", "Over time: kept, moved, lost and why"], rows), w.more ? make("p", "note", `${w.more} pods are left out`) : ""];
  }
}

class Spread extends Fold {
  text(s) { return `${s.namespace}/${s.name} ${s.target} ` + s.subsets.map((o) => o.name).join(" "); }
  heading(s) {
    return [make("h3", "", `${s.namespace}/${s.name}`), ` ${s.target}: `, s.subsets.map((o) => `${o.name} ${o.replicas}`).join(", "),
      ...tags(`WorkloadSpread ${s.namespace}/${s.name}`)];
  }
  contents(s) {
    const rows = s.subsets.map((o) => [o.name, `${o.replicas}`, o.missing < 0 ? "takes any number" : `${o.missing}`,
      notes(problemsOf(`WorkloadSpread ${s.namespace}/${s.name}, subset ${o.name}`))]);
    return [table(["Subset", "Pods", "Missing", "Needs attention"], rows)];
  }
}

// Need is one thing that needs attention, with what to do.
class Need {
  constructor() { this.root = make("article", "item"); }
  text(n) { return `${n.severity} ${n.object} ${n.reason} ${n.message}`; }
  show(n) {
    this.root.replaceChildren(make("span", "tag bad", n.severity), make("h3", "", n.object), make("p", "", `${n.reason}: ${n.message}`),
      n.remedy ? make("p", "soft", "remedy: ", make("code", "", n.remedy)) : "");
  }
}

const stances = { MayGo: "● may go", MustStay: "◆ must stay", Away: "○ is away" };

class Budget extends Fold {
  text(b) { return `${b.namespace}/${b.name} ` + [...b.holders, ...b.waiting, ...(b.places || [])].map((h) => `${h.pod} ${h.by || ""}`).join(" "); }
  heading(b) {
    return [make("h3", "", `${b.namespace}/${b.name}`), ` ${b.kind}: `, make("span", b.allowed > 0 ? "good" : "bad", `${b.allowed} more may go`),
      `, ${b.available} of ${b.total} available, ${b.desired} needed, ${b.holders.length} hold units, ${b.waiting.length} wait`,
      ...tags(`${b.kind} ${b.namespace}/${b.name}`)];
  }
  contents(b) {
    const row = (what) => (h) => [what, h.pod, h.why, h.by || "", h.since ? clock(h.since) : ""];
    const rows = [...b.holders.map(row("holds a unit")), ...b.waiting.map(row("waits"))];
    const sites = (b.sites || []).map((s) => [s.site, `${s.share}`, s.says || "", s.since ? clock(s.since) : ""]);
    const places = (b.places || []).map((p) => make("span", "", `${stances[p.state][0]} ${p.pod}`));
    return [places.length ? make("div", "", make("p", "soft", Object.values(stances).join(", ")), make("p", "legend", ...places)) : "",
      rows.length ? table(["", "Pod", "Why", "Asked by", "Since"], rows) : make("p", "soft", "no pod holds a unit"),
      sites.length ? table(["Site", "Share", "", "Since"], sites) : "",
      b.more ? make("p", "note", `${b.more} are left out`) : ""];
  }
}

// Items keeps the elements of a section, one for each key, so that focus and open items stay.
class Items {
  constructor(section, Kind, about) {
    this.about = about; this.section = byId(section); this.root = this.section.querySelector(".items"); this.Kind = Kind; this.all = new Map();
    this.missed = make("p", "soft", "nothing here matches the filter");
    this.missed.hidden = true;
    this.root.after(this.missed);
  }
  show(items, keyOf) {
    const keys = new Set();
    items.forEach((item, i) => {
      const key = keyOf(item), data = JSON.stringify(item);
      keys.add(key);
      let e = this.all.get(key);
      if (!e) this.all.set(key, e = new this.Kind());
      const version = data + shown.partial + JSON.stringify(problemsOf(this.about(item)));
      if (e.version !== version) { e.version = version; e.show(item); e.words = e.text(item).toLowerCase(); }
      if (this.root.children[i] !== e.root) this.root.insertBefore(e.root, this.root.children[i] || null);
    });
    for (const [key, e] of this.all) if (!keys.has(key)) { e.root.remove(); this.all.delete(key); }
    const said = shown.notes.filter((n) => n.section === this.section.id).map((n) => n.text);
    this.section.querySelector(".notes").replaceChildren(...notes(said),
      ...(items.length ? [] : [make("p", "soft", said.some((text) => text.startsWith("not ")) ? "unknown" : "none")]));
    this.filter();
  }
  filter() {
    for (const e of this.all.values()) e.root.hidden = !hits(e.words);
    this.missed.hidden = this.all.size === 0 || [...this.all.values()].some((e) => !e.root.hidden);
  }
}

let wanted = "";
let shown = null;
const hits = (text) => text.toLowerCase().includes(wanted);
const sections = [new Items("addresses", Card, (n) => `Node ${n.name}`), new Items("workloads", Workload, (w) => `PersistentPodState ${w.namespace}/${w.name}`),
  new Items("budgets", Budget, (b) => `${b.kind} ${b.namespace}/${b.name}`), new Items("spreads", Spread, (s) => `WorkloadSpread ${s.namespace}/${s.name}`),
  new Items("needs", Need, (n) => n.object)];

function show(board) {
  shown = board;
  sections[0].show(board.nodes, (n) => n.name);
  sections[1].show(board.workloads, (w) => `${w.namespace}/${w.name}`);
  sections[2].show(board.budgets, (b) => `${b.kind}/${b.namespace}/${b.name}`);
  sections[3].show(board.spreads, (s) => `${s.namespace}/${s.name}`);
  sections[4].show(board.needs, (n) => JSON.stringify(n));
  byId("programs").replaceChildren(...board.programs.map((p) => make("span", p.unknown ? "soft" : p.ready < p.desired || !p.desired ? "bad" : "good",
    `${p.name}: ${p.unknown ? "unknown" : `${p.ready} of ${p.desired} Ready`}. `)));
}

byId("filter").addEventListener("input", () => {
  wanted = byId("filter").value.trim().toLowerCase();
  for (const s of sections) s.filter();
  for (const e of sections[0].all.values()) if (e.seen && !e.root.hidden) e.draw();
});
document.addEventListener("keydown", (e) => {
  const filter = byId("filter");
  if (e.key === "/" && document.activeElement !== filter && !e.ctrlKey && !e.altKey && !e.metaKey) { e.preventDefault(); filter.focus(); filter.select(); }
  if (e.key === "Escape" && document.activeElement === filter) { filter.value = ""; filter.dispatchEvent(new Event("input")); }
});

// state says whether the page is live, and only when that changes: screen readers read it out. What the page shows is
// live for a while after each look.
let looked = 0;
const live = 20;
function state(text) { if (byId("state").textContent !== text) byId("state").textContent = text; }
function age() {
  const seconds = Math.round((Date.now() - looked) / 1000);
  if (!looked) return;
  byId("at").textContent = `as of ${clock(looked)}` + (seconds > live ? `, ${seconds} s ago` : "");
  if (["Live", "Behind"].includes(byId("state").textContent)) state(seconds > live ? "Behind" : "Live");
}

function trouble(text) { byId("trouble").hidden = !text; if (byId("trouble").textContent !== text) byId("trouble").textContent = text; }

function take(event, data) {
  const m = JSON.parse(data);
  if (event === "trouble") return trouble(`The cluster cannot be read; an earlier state is shown: ${m.text}`);
  if (event === "board") show(m.board);
  trouble("");
  looked = new Date(m.at).getTime();
  state("Live");
  age();
}

// read takes the events of one stream until it ends.
async function read(token) {
  const answer = await fetch("/live", { headers: { Authorization: "Bearer " + token } });
  if (!answer.ok) throw Object.assign(new Error((await answer.text()).trim()), { final: answer.status === 401 || answer.status === 403 });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let parts = []; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const before = parts.length ? parts[parts.length - 1].slice(-1) : "";
    parts.push(value);
    if (!(before + value).includes("\n\n")) continue; // a board has many pieces, which are joined once
    const events = parts.join("").split("\n\n");
    parts = [events.pop()];
    for (const e of events) { const [first, second] = e.split("\n"); take(first.slice(7), second.slice(6)); }
  }
}

async function follow(token) {
  for (let pause = 1; ; pause = Math.min(pause * 2, 30)) {
    try { await read(token); pause = 1; } catch (e) {
      if (e.final) { state("Not connected"); return trouble(e.message); }
      if (e.message && !(e instanceof TypeError)) trouble(e.message);
    }
    state("Connection lost; trying again");
    await new Promise((done) => setTimeout(done, pause * 1000));
  }
}

// The token comes behind the hash mark of the address. It is kept for this tab and taken out of the history.
const links = ["needs", "addresses", "workloads", "spreads", "budgets"];
const given = location.hash.slice(1);
if (given && !links.includes(given)) { sessionStorage.setItem("token", given); history.replaceState(null, "", "/"); }
follow(sessionStorage.getItem("token") || "");
// The time left goes on without news. A new token behind the hash mark counts at once.
setInterval(() => { if (shown) for (const e of sections[0].all.values()) if (e.seen && !e.root.hidden) e.show(e.node); }, 15000);
setInterval(age, 1000);
addEventListener("hashchange", () => { if (!links.includes(location.hash.slice(1))) location.reload(); });
