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

  async save(id, entries) {
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
