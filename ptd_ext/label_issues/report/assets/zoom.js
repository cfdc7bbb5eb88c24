// Pictures of the current sample, enlarged.
"use strict";
class Zoom {
  constructor() {
    this.dialog = byId("zoom");
    byId("panel").addEventListener("click", (event) => {
      if (event.target.tagName === "IMG") this.open(event.target);
    });
    byId("larger").addEventListener("click", () => this.scale(2));
    byId("smaller").addEventListener("click", () => this.scale(0.5));
    byId("zoom-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("keydown", (event) => {
      const factor = { "+": 2, "=": 2, "-": 0.5 }[event.key];
      if (factor) this.scale(factor);
      if (event.key === "z") this.dialog.close();
      if (factor || event.key === "z") event.preventDefault();
      event.stopPropagation();
    });
  }

  open(image) {
    if (!image) return;
    this.image = image.cloneNode();
    this.image.removeAttribute("loading");
    byId("zoom-box").replaceChildren(this.image);
    this.factor = 1;
    this.scale(1);
    this.dialog.showModal();
    byId("zoom-box").focus();
  }

  scale(by) {
    this.factor = Math.min(16, Math.max(0.5, this.factor * by));
    this.image.style.width = `${100 * this.factor}%`;
  }
}
