// Where decisions are kept: in the browser, an item for each row, or by `ptd-ext review`.
"use strict";
class BrowserStorage {
  constructor(key) {
    this.key = key;
  }

  async load() {
    const entries = [];
    try {
      for (const name of Object.keys(localStorage)) {
        if (!name.startsWith(`${this.key} `)) continue;
        const found = JSON.parse(localStorage.getItem(name));
        const isEntry = (e) => COLUMNS.every((column) => typeof e?.[column] === "string");
        if (Array.isArray(found)) entries.push(...found.filter(isEntry));
      }
    } catch {
      // storage is unavailable, or holds something else
    }
    return entries;
  }

  // Without arguments, try whether decisions can be kept. Returns what became of them.
  async save(id = "", entries = []) {
    try {
      const name = `${this.key} ${id}`;
      if (entries.length) localStorage.setItem(name, JSON.stringify(entries));
      else localStorage.removeItem(name);
      return "Decisions are saved in this browser.";
    } catch {
      return "This browser cannot save decisions: download them before you close the page.";
    }
  }
}

class ServerStorage {
  constructor() {
    this.waiting = new Map(); // id → [entries, reviewers whose entry is gone], not yet sent
    this.message = "Decisions are saved in the folder of this page.";
    this.last = Promise.resolve();
  }

  isWaiting() {
    return this.waiting.size > 0;
  }

  async load() {
    try {
      const answer = await fetch("decisions");
      if (answer.ok) return await answer.json();
      this.message = `Earlier decisions cannot be read: ${(await answer.json()).error}`;
    } catch {
      this.message = "Earlier decisions cannot be read: the server does not answer.";
    }
    return [];
  }

  save(id, entries, removed) {
    if (id !== undefined) {
      const gone = new Set([...(this.waiting.get(id)?.[1] ?? []), ...removed]);
      for (const { reviewer } of entries) gone.delete(reviewer);
      this.waiting.set(id, [entries, [...gone]]);
    }
    this.last = this.last.then(() => this.send()); // one request after the other
    return this.last;
  }

  async send() {
    if (!this.waiting.size) return this.message;
    const sent = new Map(this.waiting);
    const change = {
      entries: [...sent.values()].flatMap(([entries]) => entries),
      removed: [...sent].flatMap(([id, [, gone]]) => gone.map((reviewer) => [id, reviewer])),
    };
    const headers = { "Content-Type": "application/json" };
    try {
      const answer = await fetch("decisions", { method: "POST", headers, body: JSON.stringify(change) });
      if (!answer.ok) throw new Error((await answer.json()).error);
      for (const [id, row] of sent) if (this.waiting.get(id) === row) this.waiting.delete(id);
      this.message = "Decisions are saved in the folder of this page.";
      if (this.waiting.size) return "Saving."; // what was decided in the meantime
    } catch (error) {
      const why = error instanceof TypeError ? "the server does not answer" : error.message;
      this.message = `Not saved: ${why}. Download the decisions before you close the page.`;
    }
    return this.message;
  }
}
