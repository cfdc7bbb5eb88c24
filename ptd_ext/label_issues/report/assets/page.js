// Review of the labels. DataTables sorts, searches, filters and pages; this script stores the
// decisions and handles the keyboard.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const language = { info: "_START_ to _END_ of _TOTAL_", infoEmpty: "none", infoFiltered: "" };
  const plain = { order: [], autoWidth: false, lengthChange: false, pageLength: 20, language };

  for (const id of ["classes", "confusions"]) {
    const element = byId(id);
    if (!element) continue;
    const long = element.tBodies[0].rows.length > plain.pageLength;
    new DataTable(element, { ...plain, paging: long, searching: long, info: long });
  }

  if (!byId("samples")) return;
  const data = JSON.parse(byId("data").textContent); // samples: [id, given, suggested, flagged]

  // ---- Decisions: a log of [sample, decision]; the last entry for a sample counts. ----

  const key = `ptd_ext ${data.digest}`;
  const log = readLog();
  const decisions = new Map(log);

  function readLog() {
    const isEntry = ([sample, decision]) =>
      sample in data.samples && ["accepted", "rejected", ""].includes(decision);
    try {
      return JSON.parse(localStorage.getItem(key) ?? "[]").filter(isEntry);
    } catch {
      return []; // storage is unavailable, or holds something else
    }
  }

  function saveLog() {
    try {
      localStorage.setItem(key, JSON.stringify(log));
      byId("saved").textContent = "Decisions are saved in this browser.";
    } catch {
      byId("saved").textContent = "This browser cannot save decisions: download them before you close the page.";
    }
  }

  function decide(sample, decision) {
    log.push([sample, decision]);
    afterChange(sample);
  }

  function undo() {
    const entry = log.pop();
    if (!entry) return;
    afterChange(entry[0]);
    if (positionOf(entry[0]) >= 0) moveTo(positionOf(entry[0]));
  }

  function afterChange(sample) {
    const last = log.findLast((entry) => entry[0] === sample);
    decisions.set(sample, last ? last[1] : "");
    saveLog();
    showDecision(sample);
    showTally();
    const [id, given, suggested] = data.samples[sample];
    const outcome = { accepted: `changed to ${data.classes[suggested]}`, rejected: `kept ${data.classes[given]}` };
    byId("status").textContent = `Sample ${id}: ${outcome[decisions.get(sample)] ?? "undecided"}.`;
  }

  function showDecision(sample) {
    const row = table.row(sample).node();
    const decision = decisions.get(sample) ?? "";
    row.dataset.decision = decision;
    row.querySelector(".accept").setAttribute("aria-pressed", decision === "accepted");
    row.querySelector(".reject").setAttribute("aria-pressed", decision === "rejected");
  }

  function showTally() {
    const count = (wanted) => [...decisions.values()].filter((d) => d === wanted).length;
    const [accepted, rejected] = [count("accepted"), count("rejected")];
    const open = data.samples.filter(([, , , flagged], i) => flagged && !decisions.get(i)).length;
    byId("tally").textContent = `${accepted} accepted, ${rejected} rejected, ${open} flagged labels undecided.`;
    byId("undo").disabled = !log.length;
    byId("download").disabled = accepted + rejected === 0;
  }

  // ---- The table: the same samples as cards or as rows. ----

  const table = new DataTable("#samples", {
    autoWidth: false,
    columnDefs: [
      { targets: 1, searchable: false },
      // As a string; otherwise DataTables would strip markup from a class named <b>.
      { targets: 2, type: data.samples.every(([id]) => id && !isNaN(id)) ? "num" : "string" },
      { targets: [3, 5], type: "string" },
      { targets: [4, 6], type: "num" },
    ],
    language: { ...language, zeroRecords: "No matching samples." },
    layout: { topStart: null, topEnd: null, bottomStart: "info", bottomEnd: "paging" },
    order: [[4, "asc"]],
    pageLength: 24,
  });

  table.search.fixed("pair and show", (text, cells, sample) => {
    const [, given, suggested, flagged] = data.samples[sample];
    const pair = byId("pair").value;
    if (pair && pair !== `${given},${suggested}`) return false;
    const show = byId("show").value;
    if (show === "flagged" || show === "unflagged") return flagged === (show === "flagged");
    return show === "all" || show === (decisions.get(sample) || "open");
  });

  byId("search").addEventListener("input", (event) => table.search(event.target.value).draw());
  byId("pair").addEventListener("change", () => table.draw());
  byId("show").addEventListener("change", () => table.draw());
  byId("sort").addEventListener("change", (event) => {
    const [column, direction] = event.target.value.split(",");
    table.order([Number(column), direction]).draw();
  });
  // Start the next page at its top.
  table.on("page", () => byId("controls").scrollIntoView());
  byId("view").addEventListener("change", (event) => {
    byId("samples").classList.toggle("cards", event.target.value === "cards");
  });

  // ---- Moving: positions count the samples as they are sorted and filtered. ----

  let current = null; // the sample

  const inOrder = () => table.rows({ order: "applied", search: "applied" }).indexes().toArray();
  const positionOf = (sample) => inOrder().indexOf(sample);

  function select(sample, focus) {
    if (current !== null) table.row(current).node().removeAttribute("aria-current");
    current = sample;
    const row = table.row(sample).node();
    row.setAttribute("aria-current", "true");
    if (focus) row.focus();
  }

  function moveTo(position) {
    const samples = inOrder();
    if (!samples.length) return;
    const to = Math.max(0, Math.min(position, samples.length - 1));
    const page = Math.floor(to / table.page.len());
    // Drawing the page alone does not sort or filter again, so that a decided sample stays in place.
    if (page !== table.page()) table.page(page).draw("page");
    select(samples[to], true);
  }

  function step(by) {
    const here = current === null ? -1 : positionOf(current);
    moveTo(here < 0 ? table.page() * table.page.len() : here + by);
  }

  function cardsPerLine() {
    const tops = [...byId("samples").tBodies[0].rows].map((row) => row.offsetTop);
    return tops.filter((top) => top === tops[0]).length;
  }

  function decideAndMove(decision) {
    if (current === null || positionOf(current) < 0) return step(0);
    decide(current, decision);
    step(1);
  }

  const keys = {
    j: () => step(1),
    k: () => step(-1),
    a: () => decideAndMove("accepted"),
    r: () => decideAndMove("rejected"),
    u: undo,
    "/": () => byId("search").focus(),
  };
  // Elsewhere on the page, the arrow keys scroll.
  const keysOnSample = {
    ArrowRight: keys.j,
    ArrowLeft: keys.k,
    ArrowDown: () => step(cardsPerLine()),
    ArrowUp: () => step(-cardsPerLine()),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const onSample = event.target.closest("#samples tbody tr");
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const action = keys[key] ?? (onSample ? keysOnSample[key] : undefined);
    if (!action) return;
    event.preventDefault();
    action();
  });

  byId("samples").addEventListener("click", (event) => {
    const row = event.target.closest("tbody tr[data-sample]");
    if (!row) return;
    const sample = Number(row.dataset.sample);
    const button = event.target.closest("button");
    select(sample, !button);
    if (!button) return;
    const decision = button.className === "accept" ? "accepted" : "rejected";
    decide(sample, decisions.get(sample) === decision ? "" : decision);
  });
  byId("undo").addEventListener("click", undo);

  // ---- The download: RFC 4180, with ids and labels exactly as in the data. ----

  function corrections() {
    const rows = [["id", "given_label", "suggested_label", "decision", "corrected_label"]];
    data.samples.forEach(([id, given, suggested], sample) => {
      const decision = decisions.get(sample);
      if (!decision) return;
      const corrected = decision === "accepted" ? suggested : given;
      const names = [given, suggested, corrected].map((label) => data.classes[label]);
      rows.push([id, names[0], names[1], decision, names[2]]);
    });
    const quoted = (field) => (/[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field);
    const text = rows.map((row) => row.map(quoted).join(",") + "\r\n").join("");
    // A surrogate without its pair stands for a byte of a file name that is not UTF-8.
    const pieces = text.split(/([\udc80-\udcff])/u);
    return pieces.map((piece, i) => (i % 2 ? Uint8Array.of(piece.charCodeAt(0) & 0xff) : piece));
  }

  byId("download").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(corrections(), { type: "text/csv;charset=utf-8" }));
    link.download = "corrections.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });

  for (const id of ["controls", "review"]) byId(id).hidden = false;
  data.samples.forEach((_, sample) => showDecision(sample));
  showTally();
  saveLog();
  table.draw();
})();
