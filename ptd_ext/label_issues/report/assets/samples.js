// What the page shows of a row: the card in the list, and the whole of it beside the list.
"use strict";
const byId = (id) => document.getElementById(id);

// An element; attributes that are null or false are left out.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function percent(value) {
  if (0 < value && value < 0.001) return "< 0.1\u00a0%";
  if (0.999 < value && value < 1) return "> 99.9\u00a0%";
  return `${(100 * value).toFixed(1)}\u00a0%`;
}

const CARD_TEXT = 600; // characters
const CARD_COLUMNS = 12;

class Samples {
  constructor(data, decisions) {
    this.data = data;
    this.decisions = decisions;
  }

  // How a decision reads: "→ dog", "cat is right".
  describe(entry) {
    return {
      confirmed: `${entry.verified_label} is right`,
      corrected: `→ ${entry.verified_label}`,
      wrong: "wrong, true label unknown",
      none: "none of the classes",
      unsure: "not sure",
    }[entry.decision];
  }

  status(position) {
    const id = this.data.ids[position];
    const entry = this.decisions.outcome(id);
    if (entry) return this.describe(entry);
    return this.decisions.conflict(id) ? "conflict" : "undecided";
  }

  content(position, whole) {
    return this.contentOf(this.data.contents[position], this.data.ids[position], whole);
  }

  contentOf({ picture, small, text, columns, values, unusual = [], omitted }, id, whole) {
    const box = element("div", { class: "content" });
    if (picture) {
      const alt = `Sample ${id}`;
      box.append(element("img", { src: picture, class: small ? "pixels" : null, alt, loading: "lazy" }));
    } else if (text !== undefined) {
      const shown = whole || text.length <= CARD_TEXT ? text : `${text.slice(0, CARD_TEXT)}…`;
      box.append(element("div", { class: "text", dir: "auto" }, shown));
    } else if (values) {
      const names = this.data.columns[columns];
      const marked = new Map(unusual.map((each) => [each[0], each]));
      let order = [...values.keys()].sort((a, b) => marked.has(b) - marked.has(a));
      if (!whole) order = order.slice(0, CARD_COLUMNS);
      const lines = order.map((i) => this.line(names[i], values[i], marked.get(i), whole));
      box.append(element("dl", { class: "row" }, ...lines));
    }
    if (omitted) box.append(element("p", { class: "note" }, omitted));
    return box;
  }

  // One column of a row; `mark` is [column, what is usual in the given class, in the suggested class].
  line(name, value, mark, whole) {
    const about = mark ? element("p", { class: whole ? "note" : "aside" }, `usual in the given class: ${mark[1]}; in the suggested class: ${mark[2]}`) : null;
    const texts = [element("dt", { dir: "auto" }, name), element("dd", { dir: "auto" }, value)];
    return element("div", { class: mark ? "unusual" : null }, ...texts, about);
  }

  card(position, index, count, current) {
    const { ids, classes, given, suggested, quality, probability, flagged } = this.data;
    const id = ids[position];
    const [given_, suggested_] = [classes[given[position]], suggested && classes[suggested[position]]];
    const status = this.status(position);
    const entry = this.decisions.outcome(id);
    const state = entry?.decision ?? (status === "conflict" ? "conflict" : null);
    const field = (name, label, number) => [
      element("div", { class: name }, element("span", { class: "field" }, name), " ", element("bdi", {}, label)),
      element("div", { class: `number ${name}-number` }, number),
    ];
    const press = (name, text, label, pressed) =>
      element("button", { type: "button", class: name, "aria-pressed": String(pressed), "aria-label": label }, text);
    const isSuggested = entry?.decision === "corrected" && entry.verified_label === suggested_;
    return element(
      "div",
      {
        role: "listitem", class: "sample", tabindex: "-1", "data-position": position,
        "data-decision": state, "aria-current": current ? "true" : null,
        "aria-setsize": count, "aria-posinset": index + 1,
        "aria-label": `Sample ${id}, given label ${given_}` +
          (suggested ? `, suggested label ${suggested_}` : "") + `, ${status}`,
      },
      this.content(position, false),
      ...field("given", given_, quality ? percent(quality[position]) : ""),
      ...(suggested ? field("suggested", suggested_, percent(probability[position])) : []),
      element(
        "div", { class: "id" }, element("span", { class: "field" }, "id"), " ", element("bdi", {}, id),
        flagged && !flagged[position] ? element("span", { class: "note" }, " not flagged") : null,
      ),
      element("div", { class: "status" }, element("bdi", {}, status === "undecided" ? "\u00a0" : status)),
      element(
        "div", { class: "decide" },
        suggested ? press("accept", "Accept", `Accept ${suggested_} for sample ${id}`, isSuggested) : null,
        press("keep", "Keep", `Keep ${given_} for sample ${id}`, entry?.decision === "confirmed"),
      ),
    );
  }

  // All that a search looks at, in lower case.
  searched(position) {
    const { ids, classes, given, suggested, contents } = this.data;
    const { text = "", values = [] } = contents[position];
    const names = [classes[given[position]], suggested ? classes[suggested[position]] : ""];
    return [ids[position], ...names, text, ...values].join("\n").toLowerCase();
  }
}
