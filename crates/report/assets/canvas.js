// The ground that charts are drawn on: size, axes, grid.
class Canvas {
  constructor(parent, caption, height, label) {
    this.node = element('canvas', { tabIndex: 0 });
    this.node.setAttribute('role', 'img');
    this.node.setAttribute('aria-label', label);
    this.node.style.height = height + 'px';
    this.caption = element('figcaption', { textContent: caption });
    parent.append(element('figure', {}, this.caption, this.node));
    this.height = height;
    this.left = 64; this.right = 12; this.top = 8; this.bottom = 38;
    new ResizeObserver(redraw).observe(this.node);
  }
  begin() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.node.clientWidth || 600;
    this.node.width = Math.round(this.width * ratio);
    this.node.height = Math.round(this.height * ratio);
    const context = this.context = this.node.getContext('2d');
    context.scale(ratio, ratio);
    this.fill(ink.panel, this.left, this.top, this.plotWidth, this.plotHeight);
    context.font = '11px Inter, system-ui, "DejaVu Sans", sans-serif';
    context.lineWidth = 1;
    return context;
  }
  get plotWidth() { return Math.max(10, this.width - this.left - this.right); }
  get plotHeight() { return this.height - this.top - this.bottom; }
  fill(colour, x, y, width, height) {
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
  }
  clip() {
    this.context.save();
    this.context.beginPath();
    this.context.rect(this.left, this.top, this.plotWidth, this.plotHeight);
    this.context.clip();
  }
  message(text) {
    this.context.fillStyle = ink.quiet;
    this.context.textAlign = 'center';
    this.context.fillText(text, this.left + this.plotWidth / 2, this.top + this.plotHeight / 2);
  }
  marks(entries, title) {
    const context = this.context, bottom = this.top + this.plotHeight;
    context.textAlign = 'center';
    let free = -Infinity;
    for (const [x, words] of entries) {
      this.fill(ink.grid, x, this.top, 1, this.plotHeight);
      const half = context.measureText(words).width / 2;
      if (x - half < free) continue;
      context.fillStyle = ink.quiet;
      context.fillText(words, Math.min(x, this.width - half), bottom + 15);
      free = x + half + 8;
    }
    context.fillStyle = ink.quiet;
    context.fillText(title, this.left + this.plotWidth / 2, bottom + 32);
    this.fill(ink.axis, this.left, bottom, this.plotWidth, 1);
  }
  timeAxis(from, until) {
    if (isEmpty) return;
    if (head.clock_zero_ms !== null) { this.clockAxis(from, until); return; }
    const origin = head.origin_seconds, span = until - from, [size, name] = unitFor(span);
    const step = timeStep(span, Math.max(2, this.plotWidth / 90)), entries = [];
    for (let number = Math.ceil((from + origin) / step); number * step <= until + origin; number++) {
      entries.push([this.left + (number * step - origin - from) / span * this.plotWidth, plain(number * step / size)]);
    }
    this.marks(entries, 'time (' + name + ')');
  }
  // Marks at round times of the reader's own day.
  clockAxis(from, until) {
    const span = until - from, step = Math.max(1, timeStep(span, Math.max(2, this.plotWidth / 90))), entries = [];
    const begin = clockOf(from), away = begin.getTimezoneOffset() * 60, zero = head.clock_zero_ms / 1000 + head.origin_seconds;
    let day = '';
    for (let number = Math.ceil((zero + from - away) / step); number * step + away <= zero + until; number++) {
      const at = number * step + away - zero, date = clockOf(at), today = dayOf(date), words = step >= 86400 ? today : timeOfDay(date, step);
      entries.push([this.left + (at - from) / span * this.plotWidth, day && day !== today && step < 86400 ? today + ' ' + words : words]);
      day = today;
    }
    const end = clockOf(until);
    this.marks(entries, 'clock time, ' + dayOf(begin) + (dayOf(end) === dayOf(begin) ? '' : ' to ' + dayOf(end)));
  }
  valueAxis(top, form) {
    const context = this.context, step = niceStep(top, 4), ceiling = Math.ceil(top / step - 1e-9) * step;
    context.textAlign = 'right';
    for (let value = 0; value <= ceiling * 1.001; value += step) {
      const y = this.top + this.plotHeight * (1 - value / ceiling);
      this.fill(ink.grid, this.left, y, this.plotWidth, 1);
      context.fillStyle = ink.quiet;
      context.fillText(form(value), this.left - 6, y + 4);
    }
    return value => this.top + this.plotHeight * (1 - value / ceiling);
  }
  inside(event) {
    const box = this.node.getBoundingClientRect();
    return { x: (event.clientX - box.left - this.left) / this.plotWidth, y: (event.clientY - box.top - this.top) / this.plotHeight };
  }
}
