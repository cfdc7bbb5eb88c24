// Files of decisions: CSV as in RFC 4180, with ids and labels exactly as in the data.
"use strict";
const Csv = (() => {
  const quoted = (field) => (/^\ufeff|[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field);

  // The pieces of a Blob. A surrogate without its pair stands for a byte that is not UTF-8.
  function encode(rows) {
    const text = rows.map((row) => row.map(quoted).join(",") + "\n").join("");
    const pieces = text.split(/([\udc80-\udcff])/u);
    return pieces.map((piece, i) => (i % 2 ? Uint8Array.of(piece.charCodeAt(0) & 0xff) : piece));
  }

  function decode(bytes) {
    const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    const whole = (from, to) => {
      try {
        return to > bytes.length ? null : strict.decode(bytes.subarray(from, to));
      } catch {
        return null;
      }
    };
    const all = whole(0, bytes.length);
    if (all !== null) return all;
    const pieces = [];
    for (let i = 0; i < bytes.length; ) {
      const length = [1, 2, 3, 4].find((n) => whole(i, i + n) !== null);
      pieces.push(length ? whole(i, i + length) : String.fromCharCode(0xdc00 + bytes[i]));
      i += length ?? 1;
    }
    return pieces.join("");
  }

  function parse(text) {
    const rows = [];
    let row = [];
    const cell = /("(?:[^"]|"")*"|[^,\r\n]*)(,|\r\n|\r|\n|$)/y;
    cell.lastIndex = text.startsWith("\ufeff") ? 1 : 0;
    while (cell.lastIndex < text.length) {
      const [, field, end] = cell.exec(text) ?? fail(rows.length + 1);
      row.push(field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field);
      if (end === ",") {
        if (cell.lastIndex === text.length) row.push("");
        else continue;
      }
      rows.push(row);
      row = [];
    }
    if (row.length) rows.push(row);
    return rows;
  }

  function fail(line) {
    throw new Error(`row ${line} has a quote that is not closed or not doubled`);
  }

  return { encode, decode, parse };
})();
