// A list of any length in a box that scrolls: only the blocks near the view hold elements.
"use strict";
class VirtualList {
  constructor(box, makeItem) {
    this.box = box;
    this.makeItem = makeItem; // (position, index, count) → element
    this.positions = [];
    this.current = null; // a position, whose block is kept
    this.height = 400; // of a line of items, for blocks not yet seen
    const options = { root: box, rootMargin: "100% 0%" };
    this.observer = new IntersectionObserver((seen) => seen.forEach((each) => this.toggle(each)), options);
    this.columns = 0;
    new ResizeObserver(() => this.countColumns() !== this.columns && this.show(this.positions)).observe(box);
  }

  countColumns() {
    const probe = document.createElement("div");
    probe.className = "block";
    this.box.append(probe);
    const { gridTemplateColumns } = getComputedStyle(probe);
    probe.remove();
    return gridTemplateColumns.split(" ").length;
  }

  show(positions) {
    this.positions = positions;
    this.indices = new Map(positions.map((position, index) => [position, index]));
    this.columns = this.countColumns();
    this.lines = Math.ceil(24 / this.columns);
    this.size = this.columns * this.lines; // whole lines, so that none has a gap
    this.observer.disconnect();
    this.blocks = [];
    for (let start = 0; start < positions.length; start += this.size) {
      const block = document.createElement("div");
      block.className = "block";
      block.setAttribute("role", "none");
      block.dataset.block = this.blocks.length;
      this.reserve(block, this.height * Math.ceil(Math.min(this.size, positions.length - start) / this.columns));
      this.blocks.push(block);
    }
    this.box.replaceChildren(...this.blocks);
    this.box.scrollTop = 0;
    if (this.blocks.length) this.fill(this.blocks[0]);
    this.blocks.forEach((block) => this.observer.observe(block));
    if (this.indices.has(this.current)) this.reveal(this.current);
  }

  reserve(block, height) {
    block.style.height = `${height}px`;
  }

  toggle({ target, isIntersecting }) {
    if (isIntersecting) this.fill(target);
    else this.empty(target);
  }

  fill(block) {
    if (block.firstChild) return;
    const start = block.dataset.block * this.size;
    const items = this.positions.slice(start, start + this.size);
    block.style.height = "";
    block.append(...items.map((position, i) => this.makeItem(position, start + i, this.positions.length)));
    this.height = block.offsetHeight / Math.ceil(items.length / this.columns);
  }

  empty(block) {
    if (!block.firstChild || this.blockOf(this.current) === block) return;
    this.reserve(block, block.offsetHeight);
    block.replaceChildren();
  }

  blockOf(position) {
    return this.blocks[Math.floor(this.indices.get(position) / this.size)];
  }

  // The element of a position, if it is in a block that is filled.
  item(position) {
    return this.blockOf(position)?.children[this.indices.get(position) % this.size];
  }

  refresh(position) {
    const index = this.indices.get(position);
    this.item(position)?.replaceWith(this.makeItem(position, index, this.positions.length));
  }

  // Scroll to a position, and return its element.
  reveal(position) {
    const earlier = this.blockOf(this.current);
    this.current = position;
    if (earlier) this.observer.unobserve(earlier), this.observer.observe(earlier); // empty it if out of view
    this.fill(this.blockOf(position));
    const item = this.item(position);
    item.scrollIntoView({ block: "nearest" });
    return item;
  }
}
