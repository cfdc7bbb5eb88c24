// The decisions about the rows: of each reviewer the last one about each id, with undo, merging and
// conflicts as in ptd_ext/label_issues/review/decisions.py.
"use strict";
const COLUMNS = ["id", "given_label", "decision", "verified_label", "reviewer", "time", "note", "audit"];

class Decisions {
  // `saveRow(id, entries, removed)` is called after every change of a row, with all its entries and
  // the reviewers whose entry is gone.
  constructor(saveRow) {
    this.saveRow = saveRow;
    this.rows = new Map(); // id → Map of reviewer → entry, the latest last
    this.history = []; // [id, earlier Map] of the changes made here
  }

  of(id) {
    return [...(this.rows.get(id)?.values() ?? [])];
  }

  // The most specific of the decisions, or null; a conflict has none.
  outcome(id) {
    const entries = this.of(id);
    if (!entries.length || this.conflict(id)) return null;
    const specific = { unsure: 0, wrong: 1 };
    return entries.reduce((a, b) => ((specific[b.decision] ?? 2) >= (specific[a.decision] ?? 2) ? b : a));
  }

  conflict(id) {
    const all = this.of(id).filter((entry) => entry.decision !== "unsure");
    const known = new Set(all.filter((e) => e.decision !== "wrong").map((e) => `${e.decision} ${e.verified_label}`));
    const wrong = all.some((entry) => entry.decision === "wrong");
    return known.size > 1 || (wrong && all.some((entry) => entry.decision === "confirmed"));
  }

  // Decide; a decision of null removes the reviewer's own, and `alone` those of others, too.
  set(id, entry, reviewer, alone = false) {
    const before = this.rows.get(id) ?? new Map();
    const after = new Map(alone ? [] : before);
    after.delete(reviewer);
    if (entry) after.set(reviewer, entry);
    this.history.push([id, before]);
    this.replace(id, after);
  }

  // Take back the last change made here; returns its id, or undefined.
  undo() {
    const [id, before] = this.history.pop() ?? [];
    if (before) this.replace(id, before);
    return id;
  }

  replace(id, entries) {
    const removed = this.of(id).map((entry) => entry.reviewer).filter((name) => !entries.has(name));
    if (entries.size) this.rows.set(id, entries);
    else this.rows.delete(id);
    this.saveRow(id, [...entries.values()], removed);
  }

  // Add the entries of a file; of one reviewer, the latest counts.
  merge(entries) {
    const changed = new Set();
    for (const entry of entries) {
      const row = this.rows.get(entry.id) ?? new Map();
      const own = row.get(entry.reviewer);
      if (own && (own.time > entry.time || COLUMNS.every((name) => own[name] === entry[name]))) continue;
      row.delete(entry.reviewer);
      this.rows.set(entry.id, row.set(entry.reviewer, entry));
      changed.add(entry.id);
    }
    this.history = []; // undoing must not remove what was merged
    for (const id of changed) this.saveRow(id, this.of(id), []);
    return changed;
  }

  // All entries, the oldest first.
  entries() {
    const all = [...this.rows.values()].flatMap((row) => [...row.values()]);
    return all.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
  }

  table() {
    return [COLUMNS, ...this.entries().map((entry) => COLUMNS.map((name) => entry[name]))];
  }

  // The entries of a table with a header; throws an error that says which row is wrong.
  static entriesOf([header = [], ...rows], classes) {
    const missing = ["id", "decision"].filter((name) => !header.includes(name));
    if (missing.length) throw new Error(`the file has no column ${missing.join(" and ")}`);
    const earlier = { accepted: "corrected", rejected: "confirmed" }; // in files of earlier reports
    const known = new Set(classes);
    return rows.map((cells, number) => {
      const found = Object.fromEntries(header.map((name, i) => [name, cells[i] ?? ""]));
      const entry = Object.fromEntries(COLUMNS.map((name) => [name, found[name] ?? ""]));
      entry.decision = earlier[entry.decision] ?? entry.decision;
      entry.verified_label ||= found.corrected_label ?? "";
      const where = `row ${number + 1}`;
      if (!["confirmed", "corrected", "wrong", "none", "unsure"].includes(entry.decision)) {
        throw new Error(`${where} has the unknown decision "${entry.decision}"`);
      }
      if (entry.decision === "confirmed") entry.verified_label ||= entry.given_label;
      if (["confirmed", "corrected"].includes(entry.decision) && !known.has(entry.verified_label)) {
        throw new Error(`${where} has the label "${entry.verified_label}", which is not a class of this page`);
      }
      return entry;
    });
  }
}
