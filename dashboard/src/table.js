// A table that is updated each second: rows are kept by key, a cell is touched only when it shows something else, and
// while the pointer or the focus is in it no row moves.

import { endWith, figure, h, leave, refresh, setAttribute, setText } from "./dom.js";
import { NONE, moment } from "./format.js";

// Columns are folded away until the table fits, so that its head sticks to the page; what does not fit even then is
// scrolled
// in a frame no higher than the window, with the head at its top.
const framed = new WeakMap();
const widths = new ResizeObserver((entries) => {
  const tables = new Set(entries.map(({ target }) => framed.get(target)));
  requestAnimationFrame(() => tables.forEach((table) => table.fit())); // folding changes widths, which may not happen in here
});

const CONTROLS = "button, a, input, select, textarea, label, [popover], .menu";
const MANY = 60; // rows: beyond, one that is far out of sight is drawn when it comes near
const NEAR = { rootMargin: "50% 0px" };

export class Table {
  /**
   * `columns`: [{ title, sort?(row), cell(row) -> nodes, right?, hint?, name?, look?, fold? }], the first is the
   * row's name, and what is no column is left out; a column of controls has `build(row) -> { element, update(row) }`
   * instead of `cell` and is never redrawn; `sortable: false` for a table that keeps its order; one with `fold`
   * (1..9) is left out where there is no room, the lowest first, and told in the opened row. `key(row)`;
   * `detail?(row) -> { element, update(row) }`, opened in place; `find(row) -> text` where there is a filter;
   * `group?: { of(row) -> name, head(name) -> { element, update(rows) } }`: rows of one name stand together below
   * its head.
   */
  constructor({ label, columns: all, key, detail = null, find = null, sort = null, group = null, sortable = true }) {
    const columns = all.filter(Boolean);
    Object.assign(this, {
      columns,
      key,
      detail,
      find,
      sortable,
      sorted: sort,
      down: true,
      needle: "",
      rows: new Map(),
      opened: new Set(),
      data: [],
    });
    Object.assign(this, {
      group,
      groups: new Map(),
      width: 0,
      folded: 0,
      folds: [...new Set(columns.map(({ fold }) => fold).filter(Boolean))].sort((one, two) => one - two),
    });
    this.lines = new WeakMap();
    this.near = new IntersectionObserver(
      (entries) => entries.forEach((entry) => this.came(this.lines.get(entry.target), entry.isIntersecting)),
      NEAR,
    );
    this.heads = columns.map((column, index) => this.head(column, index));
    this.body = h("tbody", { onkeydown: (event) => this.walk(event) });
    this.table = h("table", h("thead", h("tr", this.heads)), this.body);
    this.none = h("p.note", { hidden: true });
    this.left = h("p.left", { hidden: true });
    this.element = h(
      "div.scroll",
      { role: "region", "aria-label": label, onscroll: () => this.showEnd() },
      this.table,
      this.none,
      this.left,
    );
    this.observed = [this.table, this.element];
    for (const one of this.observed) {
      framed.set(one, this);
      widths.observe(one);
    }
    endWith(this.element, () => this.gone());
    this.showSort();
  }

  /** Fold away what there is no room for. */
  fit() {
    const { element: frame, table } = this;
    const room = frame.clientWidth;
    if (!room) return;
    const before = this.folded;
    if (room !== this.width) this.fold(0);
    this.width = room;
    while (table.offsetWidth > room && this.folded < this.folds.length) this.fold(this.folded + 1);
    const fits = table.offsetWidth <= room;
    frame.classList.toggle("fits", fits);
    setAttribute(frame, "tabindex", fits ? null : "0"); // a stop for the keyboard where it scrolls
    this.showEnd();
    const left = this.columns.filter((column) => this.isFolded(column)).map((column) => column.name ?? column.title);
    this.left.hidden = !left.length;
    setText(
      this.left,
      `No room here for ${left.join(", ")}: ${this.detail ? "open a row, or widen the window" : "widen the window"}.`,
    );
    if (this.folded !== before)
      for (const item of this.data) if (this.opened.has(this.key(item))) this.draw(this.rows.get(this.key(item)), item);
  }

  isFolded({ fold }) {
    return this.folds.slice(0, this.folded).includes(fold);
  }

  fold(many) {
    this.folded = many;
    setAttribute(
      this.table,
      "class",
      this.folds
        .slice(0, many)
        .map((fold) => `folded-${fold}`)
        .join(" ") || null,
    );
  }

  /** Is there more to the right than is seen? */
  showEnd() {
    const { element: frame } = this;
    frame.classList.toggle(
      "more",
      frame.scrollLeft + frame.clientWidth < frame.scrollWidth - 1 && !frame.classList.contains("fits"),
    );
  }

  head(column, index) {
    const attributes = { scope: "col", class: looks(column), title: column.hint, "data-fold": column.fold };
    if (!column.title) return h("th", attributes, h("span", h("span.unseen", column.name)));
    if (!column.sort || !this.sortable) return h("th", attributes, h("span", column.title));
    return h(
      "th",
      attributes,
      h(
        "button",
        { type: "button", "aria-label": column.name, onclick: () => this.sortBy(index) },
        column.right
          ? [h("span.arrow", { "aria-hidden": "true" }), column.title]
          : [column.title, h("span.arrow", { "aria-hidden": "true" })],
      ),
    );
  }

  sortBy(index) {
    this.down = this.sorted === index ? !this.down : Boolean(this.columns[index].right);
    this.sorted = index;
    this.showSort();
    this.place(true);
  }

  showSort() {
    this.heads.forEach((head, index) => {
      const chosen = index === this.sorted;
      setAttribute(head, "aria-sort", chosen ? (this.down ? "descending" : "ascending") : null);
      const arrow = head.querySelector(".arrow");
      if (arrow) setText(arrow, chosen ? (this.down ? "↓" : "↑") : "");
    });
  }

  filter(needle) {
    this.needle = needle.trim().toLowerCase();
    this.place(true);
  }

  update(data) {
    this.data = data;
    const present = new Set();
    for (const item of data) {
      const key = this.key(item);
      present.add(key);
      if (!this.rows.has(key)) this.rows.set(key, this.row(key, item));
      const row = this.rows.get(key);
      row.late = row.far && data.length > MANY && !this.opened.has(key) ? item : null;
      if (!row.late) this.draw(row, item);
    }
    for (const [key, row] of this.rows) {
      if (present.has(key)) continue;
      this.shut(row);
      this.opened.delete(key);
      this.near.unobserve(row.line);
      row.line.remove();
      row.more.remove();
      this.rows.delete(key);
    }
    this.place(false);
  }

  gone() {
    for (const row of this.rows.values()) this.shut(row);
    this.near.disconnect();
    for (const one of this.observed) widths.unobserve(one);
  }

  shut(row) {
    leave(row.hold);
    row.inside = null;
    row.hold.replaceChildren();
  }

  row(key, item) {
    const cells = this.columns.map((column) =>
      h("td", { class: looks(column), "data-title": column.title, "data-fold": column.fold }),
    );
    const built = this.columns.map((column, index) => {
      const control = column.build?.(item);
      if (control) cells[index].append(control.element);
      return control;
    });
    const row = {
      cells,
      built,
      line: h("tr.row", { onclick: (event) => this.detail && opens(event) && this.toggle(key) }, cells),
      hold: h("div"),
      rest: h("p.rest", { hidden: true }),
      inside: null,
      far: false,
      late: null,
    };
    this.lines.set(row.line, row);
    this.near.observe(row.line);
    row.more = h(
      "tr.detail",
      { hidden: true },
      h("td", { colspan: String(this.columns.length) }, h("div", row.rest, row.hold)),
    );
    if (this.detail) {
      row.opener = h("button.open", { type: "button", "aria-expanded": "false", onclick: () => this.toggle(key) });
      cells[0].append(row.opener);
    }
    return row;
  }

  toggle(key) {
    if (!this.opened.delete(key)) this.opened.add(key);
    this.draw(
      this.rows.get(key),
      this.data.find((item) => this.key(item) === key),
    );
  }

  /** What a row opens to, opened if it was not. */
  open(key) {
    if (!this.opened.has(key)) this.toggle(key);
    return this.rows.get(key).inside;
  }

  /** Open a row and go to it; false where there is none. */
  reveal(key) {
    if (!this.rows.has(key)) return false;
    const { line, opener } = this.rows.get(key);
    this.open(key);
    line.scrollIntoView({ block: "center" });
    opener.focus({ preventScroll: true });
    return true;
  }

  /** A row came near what is seen, or went far from it. */
  came(row, near) {
    row.far = !near;
    if (!near || !row.late) return;
    this.draw(row, row.late);
    row.late = null;
  }

  /** Up and down arrows move between the names of the rows. */
  walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !event.target.matches("button.open")) return;
    const openers = [...this.body.querySelectorAll("button.open")];
    const next = openers[openers.indexOf(event.target) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  draw(row, item) {
    this.columns.forEach((column, index) => {
      if (row.built[index]) return row.built[index].update(item);
      const into = index === 0 && row.opener ? row.opener : row.cells[index];
      return refresh(into, column.cell(item));
    });
    if (!this.detail) return null;
    const open = this.opened.has(this.key(item));
    row.more.hidden = !open;
    setAttribute(row.opener, "aria-expanded", String(open));
    if (!open) return row.inside && this.shut(row);
    if (!row.inside) {
      row.inside = this.detail(item);
      row.hold.replaceChildren(row.inside.element);
    }
    this.tellFolded(row, item);
    return row.inside.update(item);
  }

  /** The columns that there is no room for, in the opened row. */
  tellFolded(row, item) {
    const left = this.columns.filter((column) => column.cell && this.isFolded(column));
    row.rest.hidden = !left.length;
    refresh(
      row.rest,
      left.map((column) => h("span", h("span.quiet", `${column.name ?? column.title} `), column.cell(item))),
    );
  }

  /** Put the rows in order; nothing moves under the pointer unless the reader asked for it. */
  place(asked) {
    const still = !asked && (this.body.matches(":hover") || this.body.contains(document.activeElement));
    const wanted = still
      ? this.placed().concat(this.data.filter((item) => !this.rows.get(this.key(item)).line.isConnected))
      : this.ordered();
    const shown = wanted.filter((item) => this.matches(item));
    const linesOf = (item) => {
      const row = this.rows.get(this.key(item));
      return [row.line, row.more];
    };
    const lines = this.group
      ? this.grouped(shown).flatMap(([line, items]) => [line, ...items.flatMap(linesOf)])
      : shown.flatMap(linesOf);
    const same =
      lines.length === this.body.children.length && lines.every((line, index) => this.body.children[index] === line);
    if (!same) {
      // Moving an element would lose the focus inside it.
      const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
      this.body.replaceChildren(...lines);
      if (focused?.isConnected) focused.focus();
    }
    this.shown = shown.length;
    this.none.hidden = this.shown > 0 || !this.needle;
    setText(this.none, this.none.hidden ? "" : `Nothing here has “${this.needle}”.`);
  }

  /** [head, rows] of each group, in the order of the data. */
  grouped(shown) {
    return [...new Set(this.data.map(this.group.of))]
      .map((name) => [name, shown.filter((item) => this.group.of(item) === name)])
      .filter(([, items]) => items.length)
      .map(([name, items]) => {
        if (!this.groups.has(name)) {
          const head = this.group.head(name);
          this.groups.set(name, { head, line: h("tr.group", h("td", { colspan: String(this.columns.length) }, head)) });
        }
        const { head, line } = this.groups.get(name);
        head.update(this.data.filter((item) => this.group.of(item) === name));
        return [line, items];
      });
  }

  placed() {
    const byLine = new Map(this.data.map((item) => [this.rows.get(this.key(item)).line, item]));
    return [...this.body.children].map((line) => byLine.get(line)).filter(Boolean);
  }

  ordered() {
    const by = this.sorted === null ? null : this.columns[this.sorted].sort;
    if (!by) return this.data;
    const sign = this.down ? -1 : 1;
    return [...this.data].sort((one, two) => {
      const a = by(one);
      const b = by(two);
      // What has no figure stands last, whichever way the table is sorted.
      if (a === null || a === undefined || b === null || b === undefined)
        return (a ?? null) === (b ?? null) ? 0 : (a ?? null) === null ? 1 : -1;
      return sign * (typeof a === "string" ? a.localeCompare(b) : a - b);
    });
  }

  matches(item) {
    return !this.needle || this.find(item).toLowerCase().includes(this.needle);
  }
}

/** A click on a row that hit nothing with a use of its own, and ended no marking of text. */
const opens = ({ target }) => !target.closest(CONTROLS) && (getSelection()?.isCollapsed ?? true);

const looks = ({ right, look }) => [right ? "right" : null, look].filter(Boolean).join(" ") || null;

/** A column of words that are sorted as they stand. */
export const words = (title, value, more = {}) => ({ title, sort: value, cell: value, ...more });

/** A column of times. */
export const moments = (title, value, more = {}) => ({
  title,
  sort: value,
  cell: (row) => (value(row) ? moment(value(row)) : NONE),
  ...more,
});

/** A column of one figure. */
export const numbers = (title, value, format, more = {}) => ({
  title,
  right: true,
  sort: value,
  cell: (row) => figure(format(value(row))),
  ...more,
});
