// The workplace: filters, orders, moving, deciding, and files of decisions.
"use strict";
(async () => {
  if (!byId("workplace")) return;
  const data = JSON.parse(byId("data").textContent);
  const { ids } = data;
  const positionsOf = new Map();
  ids.forEach((id, position) => positionsOf.set(id, [...(positionsOf.get(id) ?? []), position]));

  // ---- Decisions ----

  const served = location.search === "?review";
  const storage = served ? new ServerStorage() : new BrowserStorage(`ptd_ext ${data.digest}`);
  const decisions = new Decisions(async (id, entries, removed) => {
    if (served) byId("saved").textContent = "Saving.";
    byId("saved").textContent = await storage.save(id, entries, removed);
  });
  const samples = new Samples(data, decisions);
  const notes = new Map(); // of samples about which nothing is decided yet
  const announce = (text) => (byId("status").textContent = text);
  const complain = (text) => (byId("message").textContent = text);

  function answer(decision, label, alone = false, note = byId("note").value) {
    const [position, reviewer] = [list.current, byId("reviewer").value.trim()];
    const id = ids[position];
    const own = decisions.of(id).find((entry) => entry.reviewer === reviewer);
    const again = !alone && own?.decision === decision && own.verified_label === label;
    const entry = {
      id, given_label: data.classes[data.given[position]], decision, verified_label: label, reviewer,
      time: new Date().toISOString(), note, audit: data.audit ?? "",
    };
    decisions.set(id, again ? null : entry, reviewer, alone);
    if (!again) notes.delete(id);
    changed(id);
    if (!again) move(1);
  }

  function settle({ decision, verified_label: label, note }) {
    const others = decisions.of(ids[list.current]);
    const said = others.map((e) => `${e.reviewer || "no name"}: ${samples.describe(e)}`).join("; ");
    answer(decision, label, true, [note, `settled (${said})`].filter(Boolean).join("; "));
  }

  function changed(id) {
    for (const position of positionsOf.get(id) ?? []) {
      const focused = list.item(position)?.contains(document.activeElement);
      list.refresh(position);
      if (focused) list.item(position).focus({ preventScroll: true });
    }
    showTally();
    const [position] = positionsOf.get(id) ?? [];
    if (position !== undefined) announce(`Sample ${id}: ${samples.status(position)}.`);
    if (list.current !== null && ids[list.current] === id) showPanel();
  }

  function undo() {
    const id = decisions.undo();
    if (id === undefined) return;
    changed(id);
    const position = positionsOf.get(id)?.find((each) => list.indices.has(each));
    if (position !== undefined) select(position, true);
  }

  function showTally() {
    const counts = {};
    let flagged = 0;
    for (const id of decisions.rows.keys()) {
      const state = decisions.outcome(id)?.decision ?? "conflict";
      for (const position of positionsOf.get(id) ?? []) {
        counts[state] = (counts[state] ?? 0) + 1;
        flagged += state !== "conflict" && Boolean(data.flagged?.[position] ?? true);
      }
    }
    const words = {
      corrected: "changed", confirmed: "kept", wrong: "wrong with the true label unknown",
      none: "none of the classes", unsure: "not sure", conflict: counts.conflict === 1 ? "conflict" : "conflicts",
    };
    const parts = Object.keys(words).filter((name) => counts[name]).map((name) => `${counts[name]} ${words[name]}`);
    const total = data.flagged ? data.flagged.filter(Boolean).length : ids.length;
    const what = data.flagged ? "flagged labels" : "labels";
    byId("tally").textContent = `${flagged} of ${total} ${what} decided${parts.length ? `: ${parts.join(", ")}` : ""}.`;
    byId("progress").max = Math.max(1, total);
    byId("progress").value = flagged;
    byId("undo").disabled = !decisions.history.length;
    byId("download").disabled = !decisions.rows.size;
  }

  // ---- The list, its filters and its order ----

  const list = new VirtualList(byId("samples"), (position, index, count) =>
    samples.card(position, index, count, position === list.current));

  const texts = new Map();
  const matches = (position, wanted) => {
    if (!texts.has(position)) texts.set(position, samples.searched(position));
    return texts.get(position).includes(wanted);
  };

  function isShown(position) {
    const show = byId("show")?.value ?? "all";
    if (show === "all") return true;
    if (show === "flagged" || show === "unflagged") return Boolean(data.flagged[position]) === (show === "flagged");
    const id = ids[position];
    if (show === "note") return decisions.of(id).some((entry) => entry.note);
    if (show === "conflict") return decisions.conflict(id);
    if (show === "undecided") return !decisions.of(id).length;
    return decisions.outcome(id)?.decision === show;
  }

  const collator = new Intl.Collator("en", { numeric: true });
  const named = (codes) => (a, b) => collator.compare(data.classes[codes[a]], data.classes[codes[b]]);
  const compare = {
    fix: (a, b) => data.fix[a] - data.fix[b],
    measure: (a, b) => data.measure[a] - data.measure[b],
    quality: (a, b) => data.quality[a] - data.quality[b],
    probability: (a, b) => data.probability[b] - data.probability[a],
    id: (a, b) => collator.compare(ids[a], ids[b]),
    given: named(data.given),
    suggested: named(data.suggested ?? []),
  };

  function showList() {
    const wanted = byId("search").value.trim().toLowerCase();
    const pair = byId("pair")?.value;
    const isPair = (i) => !pair || pair === `${data.given[i]},${data.suggested[i]}`;
    const found = [...ids.keys()].filter((i) => isPair(i) && isShown(i) && (!wanted || matches(i, wanted)));
    const order = byId("sort")?.value;
    if (order) found.sort((a, b) => compare[order](a, b) || a - b);
    const kept = found.includes(list.current) ? list.current : (found[0] ?? null);
    list.current = null;
    list.show(found);
    byId("count").textContent = `${found.length.toLocaleString("en")} samples shown.`;
    if (kept !== null) select(kept, false);
    byId("panel").hidden = kept === null;
  }

  let waiting;
  byId("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(showList, ids.length > 2000 ? 200 : 0);
  });
  for (const name of ["pair", "show", "sort"]) byId(name)?.addEventListener("change", showList);
  byId("view").addEventListener("change", (event) => {
    byId("samples").classList.toggle("cards", event.target.value === "cards");
    list.show(list.positions);
  });

  // ---- The current sample ----

  const panel = new Panel(data, samples, { answer, settle });
  const zoom = new Zoom();
  const isOverlay = () => getComputedStyle(byId("panel")).position === "fixed";

  const showPanel = () =>
    panel.show(list.current, byId("reviewer").value.trim(), notes.get(ids[list.current]) ?? "");

  function select(position, focus) {
    list.item(list.current)?.removeAttribute("aria-current");
    const item = list.reveal(position);
    item.setAttribute("aria-current", "true");
    showPanel();
    if (!focus) return;
    const overlay = isOverlay() && byId("panel").classList.contains("open");
    (overlay ? byId("panel-title") : item).focus({ preventScroll: true });
  }

  function move(by) {
    if (list.current === null) return;
    const index = list.indices.get(list.current) + by;
    select(list.positions[Math.max(0, Math.min(index, list.positions.length - 1))], true);
  }

  function openPanel() {
    byId("panel").classList.add("open");
    byId("panel-title").focus({ preventScroll: !isOverlay() });
  }

  function closePanel() {
    byId("panel").classList.remove("open");
    if (list.current !== null) list.reveal(list.current).focus({ preventScroll: true });
  }

  byId("samples").addEventListener("click", (event) => {
    const item = event.target.closest(".sample");
    if (!item) return;
    const button = event.target.closest("button");
    select(Number(item.dataset.position), !button);
    if (button) panel.named(button.className);
    else if (isOverlay()) openPanel();
  });
  byId("note").addEventListener("change", () => {
    const [id, note] = [ids[list.current], byId("note").value];
    const reviewer = byId("reviewer").value.trim();
    const own = decisions.of(id).find((entry) => entry.reviewer === reviewer);
    if (!own) return notes.set(id, note);
    decisions.set(id, { ...own, note, time: new Date().toISOString() }, reviewer);
    changed(id);
  });
  byId("previous").addEventListener("click", () => move(-1));
  byId("next").addEventListener("click", () => move(1));
  byId("close").addEventListener("click", closePanel);
  byId("undo").addEventListener("click", undo);

  // ---- Keys ----

  const focusOn = (name) => () => (openPanel(), byId(name).focus());
  const moving = (by) => () => {
    const inside = document.activeElement.closest(".desk");
    if (inside) move(by);
    else if (list.current !== null) select(list.current, true);
  };
  const everywhere = { j: moving(1), k: moving(-1), u: undo, "/": () => byId("search").focus() };
  const onDesk = {
    a: () => panel.named("accept"), r: () => panel.named("keep"), w: () => panel.named("wrong"),
    n: () => panel.named("none"), s: () => panel.named("unsure"), c: focusOn("class-search"), m: focusOn("note"),
    z: () => zoom.open(byId("panel-content").querySelector("img")), Escape: closePanel,
  };
  for (let digit = 0; digit < 10; digit++) onDesk[digit] = () => panel.chooseNumber(digit);
  const onSample = {
    ArrowRight: () => move(1), ArrowLeft: () => move(-1), Enter: openPanel,
    ArrowDown: () => move(list.columns), ArrowUp: () => move(-list.columns),
    Home: () => move(-list.positions.length), End: () => move(list.positions.length),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea")) {
      const inPanel = event.target.closest("#panel");
      if (event.key === "Enter" && event.target.id === "class-search") panel.chooseFound();
      else if (event.key === "Escape") inPanel ? (event.target.blur(), closePanel()) : event.target.blur();
      return;
    }
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const desk = list.current !== null && event.target.closest(".desk");
    const action = everywhere[key] ?? (desk && onDesk[key]) ?? (event.target.matches(".sample") && onSample[key]);
    if (!action) return;
    event.preventDefault();
    action();
  });

  // ---- Files of decisions ----

  byId("download").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(Csv.encode(decisions.table()), { type: "text/csv" }));
    link.download = "decisions.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
  byId("import").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    try {
      const table = Csv.parse(Csv.decode(new Uint8Array(await file.arrayBuffer())));
      const entries = Decisions.entriesOf(table, data.classes);
      const others = entries.filter(({ id }) => !positionsOf.has(id)).length;
      const merged = decisions.merge(entries);
      const conflicts = [...decisions.rows.keys()].filter((id) => decisions.conflict(id)).length;
      complain(
        `${entries.length} decisions read, of which ${merged.size} change a sample` +
        (others ? `; ${others} are about rows that are not on this page and are kept for the download` : "") +
        (conflicts ? `; ${conflicts} samples have decisions that contradict each other: show conflicts to settle them.` : "."),
      );
    } catch (error) {
      complain(`${file.name} cannot be imported: ${error.message}.`);
    }
    event.target.value = ""; // so that the same file can be chosen again
    showTally();
    showList();
  });

  // ---- Start ----

  try {
    byId("reviewer").value = localStorage.getItem("ptd_ext reviewer") ?? "";
    byId("reviewer").addEventListener("change", () =>
      localStorage.setItem("ptd_ext reviewer", byId("reviewer").value.trim()));
  } catch {
    // without storage, the name is typed again
  }
  byId("reviewer").addEventListener("change", () => list.current !== null && showPanel());
  const started = await storage.load();
  addEventListener("beforeunload", (event) => storage.isWaiting?.() && event.preventDefault());
  for (const entry of started) {
    const row = decisions.rows.get(entry.id) ?? new Map();
    decisions.rows.set(entry.id, row.set(entry.reviewer, entry));
  }
  byId("saved").textContent = await storage.save();
  byId("workplace").hidden = false;
  showTally();
  showList();
})();
