// The current sample: its content as a whole, its decisions, and every answer there is.
"use strict";
const NUMBERED = 10; // classes that have a key of their own, 1 to 9 and 0

class Panel {
  // `answer(decision, label)` decides about the current sample, `settle(entry)` ends a conflict.
  constructor(data, samples, { answer, settle }) {
    this.data = data;
    this.samples = samples;
    this.answer = answer;
    this.settle = settle;
    this.position = null;
    byId("answers").addEventListener("click", (event) => {
      const name = event.target.closest("button")?.dataset.answer;
      if (name) this.named(name);
    });
    byId("class-list").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) this.chooseClass(Number(button.dataset.class));
    });
    byId("class-search").addEventListener("input", () => this.showClasses());
  }

  named(name) {
    const { classes, given, suggested } = this.data;
    if (name === "accept" && suggested) this.chooseClass(suggested[this.position]);
    else if (name === "keep") this.chooseClass(given[this.position]);
    else if (name !== "accept") this.answer(name, "");
  }

  chooseClass(code) {
    const same = code === this.data.given[this.position];
    this.answer(same ? "confirmed" : "corrected", this.data.classes[code]);
  }

  // Classes with keys: all if there are few, else the most probable ones of this sample.
  numbered() {
    const { classes, ranking } = this.data;
    if (classes.length <= NUMBERED) return [...classes.keys()];
    return ranking ? ranking[this.position].map(([code]) => code).slice(0, NUMBERED) : [];
  }

  chooseNumber(digit) {
    const code = this.numbered()[(digit + 9) % 10]; // 0 is the tenth
    if (code !== undefined) this.chooseClass(code);
  }

  // The classes that the search finds, those with keys first.
  found() {
    const wanted = byId("class-search").value.trim().toLowerCase();
    const first = this.numbered();
    const rest = [...this.data.classes.keys()].filter((code) => !first.includes(code));
    const starts = (code) => this.data.classes[code].toLowerCase().startsWith(wanted);
    const found = [...first, ...rest].filter((code) => this.data.classes[code].toLowerCase().includes(wanted));
    return wanted ? found.sort((a, b) => starts(b) - starts(a)) : found;
  }

  chooseFound() {
    const [code] = this.found();
    if (code !== undefined && byId("class-search").value.trim()) this.chooseClass(code);
  }

  showClasses() {
    const shown = this.found().slice(0, 50);
    const probable = new Map(this.data.ranking?.[this.position] ?? []);
    const keys = this.numbered();
    const label = this.own?.verified_label;
    const buttons = shown.map((code) => {
      const number = keys.indexOf(code);
      const name = this.data.classes[code];
      const key = number < 0 ? null : String((number + 1) % 10);
      return element(
        "button",
        { type: "button", "data-class": code, "aria-pressed": String(label === name), "aria-keyshortcuts": key },
        key && element("kbd", {}, key), " ", element("bdi", {}, name),
        probable.has(code) ? element("span", { class: "note" }, ` ${percent(probable.get(code))}`) : null,
      );
    });
    const more = this.found().length - shown.length;
    const note = more > 0 ? element("p", { class: "note" }, `and ${more} more: search`) : null;
    byId("class-list").replaceChildren(...buttons, ...(note ? [note] : []));
  }

  show(position, reviewer, note) {
    const { ids, classes, given, suggested, quality, probability } = this.data;
    const id = ids[position];
    if (position !== this.position) byId("class-search").value = "";
    this.position = position;
    this.own = this.samples.decisions.of(id).find((entry) => entry.reviewer === reviewer);
    byId("panel-title").replaceChildren("Sample ", element("bdi", {}, id));
    byId("panel-content").replaceChildren(this.samples.content(position, true));
    const label = (name, code, value) => [
      `${name} `, element("bdi", { class: "name" }, classes[code]), value === undefined ? "" : ` ${percent(value)}`,
    ];
    const labels = label("given", given[position], quality?.[position]);
    if (suggested) labels.push(" · ", ...label("suggested", suggested[position], probability[position]));
    byId("panel-labels").replaceChildren(...labels);
    this.showAnswers(suggested ? classes[suggested[position]] : null, classes[given[position]]);
    this.showClasses();
    this.showEntries(id);
    this.showSimilar(given[position]);
    byId("note").value = this.own?.note ?? note;
  }

  // The most similar rows side by side, those with another given label marked.
  showSimilar(own) {
    const similar = this.data.similar?.[this.position] ?? [];
    const cards = similar.map((index) => {
      const [id, given, content] = this.data.others[index];
      const label = element("bdi", { class: "name" }, this.data.classes[given]);
      const name = element("p", { class: "note" }, label, given === own ? "" : " (another label)", ` · ${id}`);
      return element("li", { class: given === own ? null : "conflict" }, this.samples.contentOf(content, id, false), name);
    });
    const title = cards.length ? [element("h4", {}, "Most similar rows")] : [];
    byId("neighbours").replaceChildren(...title, element("ul", {}, ...cards));
  }

  showAnswers(suggested, given) {
    const { decision, verified_label: label } = this.own ?? {};
    for (const button of byId("answers").children) {
      const name = button.dataset.answer;
      const names = { accept: suggested, keep: given };
      if (name in names) button.querySelector("span").textContent = `${names[name]}${name === "keep" ? " is right" : ""}`;
      button.hidden = name === "accept" && (!suggested || suggested === given);
      const pressed = name in names ? label === names[name] : decision === name;
      button.setAttribute("aria-pressed", String(pressed));
    }
  }

  // Who decided what; in a conflict, one of them can be made the only one.
  showEntries(id) {
    const entries = this.samples.decisions.of(id);
    const conflict = this.samples.decisions.conflict(id);
    byId("entries").replaceChildren(
      ...(conflict ? [element("li", { class: "conflict" }, "The decisions contradict each other.")] : []),
      ...entries.map((entry) => {
        const settle = element("button", { type: "button" }, "Settle");
        settle.addEventListener("click", () => this.settle(entry));
        const about = ` (${entry.reviewer || "no name"}${entry.time ? `, ${entry.time.slice(0, 10)}` : ""}) `;
        const words = [element("bdi", {}, this.samples.describe(entry)), about];
        return element("li", {}, ...words, entry.note && element("q", { dir: "auto" }, entry.note), conflict ? settle : "");
      }),
    );
  }
}
