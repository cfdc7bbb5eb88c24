"""What tests ask of the page in a browser, as expressions."""

# The numbers of the samples that are in the list, in order, and the current one.
NUMBERS = ".map((e) => +e.textContent.slice(4, 7))"
SHOWN = f"[...document.querySelectorAll('#samples .id bdi')]{NUMBERS}"
CURRENT = "+document.querySelector('.sample[aria-current] .id bdi')?.textContent.slice(4, 7)"
FOCUSED = "+document.activeElement.querySelector('.id bdi')?.textContent.slice(4, 7)"
TALLY = "document.getElementById('tally').textContent"
STATUS = "document.getElementById('status').textContent"
MESSAGE = "document.getElementById('message').textContent"
READY = "!document.getElementById('workplace')?.hidden"

# The texts with less contrast to their background than WCAG AA asks: 3 for large ones, else 4.5.
# Chromium gives colours as rgb(…) of 255 or color(srgb …) of 1.
CONTRAST = """(() => {
  const parts = (colour) => {
    const numbers = colour.match(/-?[\\d.]+(e-?\\d+)?/g).map(Number);
    const scale = colour.startsWith('rgb') ? 255 : 1;
    return [numbers.slice(0, 3).map((n) => n / scale), numbers[3] ?? 1];
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const [rgb, opacity] = parts(getComputedStyle(e).backgroundColor);
      if (opacity === 1) return rgb;
      if (opacity !== 0) throw new Error('a background is half transparent');
    }
    throw new Error('the page has no background');
  };
  const failed = [];
  let count = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest('script, style, option, .aside')) continue;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(parts(style.color)[0]), luminance(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    count += 1;
    if (contrast < (large ? 3 : 4.5)) {
      failed.push(`${contrast.toFixed(2)}: ${walker.currentNode.data.trim().slice(0, 40)}`);
    }
  }
  return { count, failed: [...new Set(failed)] };
})()"""

# The words of class names that are broken in two, the fields of the cards of the first line that
# are not level, and the pictures that are cropped or distorted.
CARDS = """(() => {
  const broken = [];
  const names = '#samples :is(.given, .suggested) bdi, #classes tbody th, table.matrix tbody th, ' +
    '.differences bdi, #confusions td:not(.number)';
  const seen = {};
  for (const name of document.querySelectorAll(names)) {
    const text = name.firstChild;
    seen[name.closest('[id]').id] = true;
    for (const word of text.data.matchAll(/[A-Za-z]+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (range.getClientRects().length !== 1) broken.push(word[0]);
    }
  }
  const rows = [...document.querySelectorAll('#samples .sample')];
  const line = rows.filter((row) => row.offsetTop === rows[0].offsetTop);
  const fields = ['.given', '.given-number', '.suggested', '.suggested-number',
    '.status', '.decide'];
  const uneven = fields.filter((field) => new Set(line.map((row) =>
      row.querySelector(field).getBoundingClientRect().top)).size > 1);
  const cropped = [...document.querySelectorAll('#samples .content img')].filter((img) => {
    const [box, cell] = [img, img.parentElement].map((e) => e.getBoundingClientRect());
    return getComputedStyle(img).objectFit !== 'contain' || box.right > cell.right + 0.5 ||
      box.bottom > cell.bottom + 0.5;
  }).length;
  return {
    broken: [...new Set(broken)], uneven, cropped, line: line.length, seen: Object.keys(seen),
  };
})()"""
