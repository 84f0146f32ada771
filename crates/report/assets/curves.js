// Curves over time, and distributions of times over jobs.
// A series (a policy, or a GPU) is at full strength, or pale until it is chosen in the legend or pointed at.
let lifted = null;
const isStrong = one => lifted === one || one.isStrong;
// Pale ones first, so that the others lie on top of them.
const inOrder = list => [...list].sort((a, b) => isStrong(a) - isStrong(b));
function pen(context, one, width) {
  context.strokeStyle = toned(one.colour);
  context.lineWidth = lifted === one ? width * 1.7 : isStrong(one) ? width : width * 0.6;
  context.globalAlpha = isStrong(one) ? 1 : 0.3;
  context.setLineDash(one.dash ? one.dash.split(' ').map(Number) : []);
}
function strokeWith(context, one, width) {
  pen(context, one, width);
  context.stroke();
  context.setLineDash([]);
  context.globalAlpha = 1;
}
// The legend of lines: each entry is drawn as its line is; a click changes its strength, pointing at it lifts it.
function lineLegend(parent, list) {
  parent.replaceChildren(...list.map(one => {
    const sample = '<svg viewBox="0 0 30 10" aria-hidden="true"><path d="M1 5h28" fill="none" stroke-width="2.4"/></svg>';
    const button = element('button', { type: 'button', title: one.name });
    button.innerHTML = sample;
    const path = button.querySelector('path');
    path.setAttribute('stroke', toned(one.colour));
    if (one.dash) path.setAttribute('stroke-dasharray', one.dash);
    path.setAttribute('stroke-opacity', one.isStrong ? 1 : 0.4);
    button.append(one.name);
    button.setAttribute('aria-pressed', String(one.isStrong));
    const lift = to => { lifted = to; redraw(); };
    button.onclick = () => { one.isStrong = !one.isStrong; lifted = null; legends(); redraw(); };
    button.onpointerenter = button.onfocus = () => lift(one);
    button.onpointerleave = button.onblur = () => lift(null);
    return button;
  }));
}
class Lines extends Canvas {
  constructor(parent, caption, list, field, form, ceiling) {
    super(parent, caption, 190, caption + ' over time');
    Object.assign(this, { list, field, form, ceiling });
    makeMovable(this, false);
  }
  draw() {
    const context = this.begin(), curves = this.list.filter(one => one.series);
    this.timeAxis(state.from, state.until);
    if (!curves.length) { this.message(isEmpty ? 'no job ran' : 'no timeline was recorded in this run'); return; }
    const top = this.ceiling || Math.max(1e-9, ...curves.map(one => one.series[this.field].reduce((high, value) => Math.max(high, value || 0), 0)));
    const y = this.valueAxis(top < 1e-6 ? 1 : top, this.form), x = time => this.left + (time - state.from) / (state.until - state.from) * this.plotWidth;
    this.clip();
    for (const one of inOrder(curves)) {
      const { seconds: borders } = one.series, values = one.series[this.field];
      context.beginPath();
      const from = Math.max(0, firstAbove(borders, state.from) - 2);
      for (let slice = from, isBroken = true; slice < values.length && borders[slice] <= state.until; slice++) {
        if (values[slice] === null) { isBroken = true; continue; }
        if (isBroken) context.moveTo(x(borders[slice]), y(values[slice])); else context.lineTo(x(borders[slice]), y(values[slice]));
        context.lineTo(x(borders[slice + 1]), y(values[slice]));
        isBroken = false;
      }
      strokeWith(context, one, 1.4);
      if (curves.length === 1) {
        context.lineTo(x(borders[borders.length - 1]), y(0));
        context.lineTo(x(borders[from]), y(0));
        context.globalAlpha = 0.14;
        context.fillStyle = toned(one.colour);
        context.fill();
        context.globalAlpha = 1;
      }
    }
    if (state.cross !== null) this.fill(ink.ink, x(state.cross), this.top, 1, this.plotHeight);
    context.restore();
  }
  hover(event, place) {
    if (place.x < 0 || place.x > 1) { tip(); return; }
    state.cross = state.from + place.x * (state.until - state.from);
    const rows = this.list.filter(one => one.series && (isStrong(one) || this.list.length <= 12)).map(one => {
      const slice = firstAbove(one.series.seconds, state.cross) - 1, value = one.series[this.field][slice];
      return [one.name, value === undefined || value === null ? '–' : this.form(+value.toFixed(3))];
    });
    if (!pinned) tip(event, 'at ' + moment(state.cross), rows);
    redraw();
  }
}

const sorted = new Map();
// The known values of a column in order.
function sortedOf(policy, field) {
  const key = policies.indexOf(policy) + field;
  if (!sorted.has(key)) sorted.set(key, policy[field].filter(value => !Number.isNaN(value)).sort());
  return sorted.get(key);
}
// Marks of a logarithmic axis: coarse over many decades, finer over few.
const COARSE = [[1e-3, '1 ms'], [0.01, '10 ms'], [0.1, '0.1 s'], [1, '1 s'], [10, '10 s'], [60, '1 min'], [600, '10 min'], [3600, '1 h'], [36000, '10 h'], [86400, '1 d'], [864000, '10 d'], [8640000, '100 d'], [86400000, '1,000 d']];
const FINE = [[1, '1 s'], [2, '2 s'], [5, '5 s'], [10, '10 s'], [20, '20 s'], [30, '30 s'], [60, '1 min'], [120, '2 min'], [300, '5 min'], [600, '10 min'], [1200, '20 min'], [1800, '30 min'], [3600, '1 h'], [7200, '2 h'], [18000, '5 h'], [36000, '10 h'], [86400, '1 d'], [172800, '2 d'], [432000, '5 d'], [864000, '10 d'], [1728000, '20 d'], [4320000, '50 d'], [8640000, '100 d']];
class Spread extends Canvas {
  constructor(parent, caption, field, isHistogram) {
    super(parent, caption, 300, caption);
    Object.assign(this, { field, isHistogram });
    this.node.addEventListener('pointermove', event => this.hover(event, this.inside(event)));
    this.node.addEventListener('pointerleave', () => { this.cross = null; tip(); redraw(); });
  }
  // The part of the time axis that is shown, and how values lie on it.
  range() {
    const lists = policies.map(policy => sortedOf(policy, this.field)), longest = Math.max(0, ...lists.map(list => list[list.length - 1] || 0));
    const shortest = Math.min(longest, ...lists.map(list => { const from = firstAbove(list, 0); return list[from + Math.floor((list.length - from) * 0.02)] ?? longest; }));
    const low = state.logarithmic ? Math.max(shortest, longest / 1e7) : 0;
    const straight = !state.logarithmic || low >= longest;
    this.low = straight ? 0 : low;
    this.high = longest;
    this.fraction = value => straight ? value / longest : clamp(Math.log(value / low) / Math.log(longest / low), 0, 1);
    this.value = fraction => straight ? fraction * longest : low * (longest / low) ** fraction;
    this.straight = straight;
    return lists;
  }
  draw() {
    this.begin();
    const lists = this.range();
    if (!lists.some(list => list.length)) { this.message('no job completed'); return; }
    if (!(this.high > 0)) { this.message('no job waited'); return; }
    const x = value => this.left + this.fraction(value) * this.plotWidth;
    if (this.straight) {
      const [size, name] = unitFor(this.high), step = timeStep(this.high, Math.max(2, this.plotWidth / 90)), entries = [];
      for (let number = 0; number * step <= this.high; number++) entries.push([x(number * step), plain(number * step / size)]);
      this.marks(entries, 'time (' + name + ')');
    } else this.marks((this.high / this.low < 300 && this.low >= 1 ? FINE : COARSE).filter(([at]) => at >= this.low && at <= this.high).map(([at, words]) => [x(at), words]), 'time, logarithmic');
    if (this.isHistogram) this.drawHistogram(lists); else this.drawLines(lists, x);
    if (this.cross > 0 && this.cross < 1) this.fill(ink.ink, this.left + this.cross * this.plotWidth, this.top, 1, this.plotHeight);
  }
  drawLines(lists, x) {
    const context = this.context, y = this.valueAxis(1, value => plain(value * 100) + ' %');
    for (const one of inOrder(policies)) {
      const list = lists[policies.indexOf(one)];
      const stride = Math.max(1, Math.floor(list.length / 1500));
      context.beginPath();
      context.moveTo(this.left, y(0));
      let level = 0;
      for (let rank = 0; rank < list.length; rank += stride) {
        const at = x(list[rank]);
        context.lineTo(at, y(level));
        level = (rank + 1) / list.length;
        context.lineTo(at, y(level));
      }
      if (list.length) { context.lineTo(x(list[list.length - 1]), y(1)); context.lineTo(this.left + this.plotWidth, y(1)); }
      strokeWith(context, one, 1.8);
    }
  }
  drawHistogram(lists) {
    const drawn = policies.filter(isStrong), bins = this.bins = 24, shares = drawn.map(one => lists[policies.indexOf(one)]).map(list => Array.from({ length: bins }, (_, bin) => this.between(list, bin / bins, (bin + 1) / bins)));
    const y = this.valueAxis(Math.max(0.01, ...shares.flat()), value => plain(value * 100) + ' %'), slot = this.plotWidth / bins, width = (slot - 2) / Math.max(1, drawn.length);
    shares.forEach((values, position) => {
      const colour = toned(drawn[position].colour);
      values.forEach((value, bin) => this.fill(colour, this.left + bin * slot + 1 + position * width, y(value), Math.max(0.5, width - 0.5), y(0) - y(value)));
    });
  }
  // Share of jobs between two places of the axis; the first place takes everything below it too.
  between(list, from, until) {
    const low = from <= 0 ? 0 : firstAbove(list, this.value(from)), high = until >= 1 ? list.length : firstAbove(list, this.value(until));
    return list.length ? (high - low) / list.length : 0;
  }
  hover(event, place) {
    if (place.x < 0 || place.x > 1 || !(this.high > 0)) { tip(); return; }
    this.cross = place.x;
    const lists = policies.map(policy => sortedOf(policy, this.field)), bin = Math.min(23, Math.floor(place.x * 24));
    const share = list => this.isHistogram ? this.between(list, bin / 24, (bin + 1) / 24) : firstAbove(list, this.value(place.x)) / Math.max(1, list.length);
    const title = this.isHistogram ? (bin ? duration(this.value(bin / 24)) : '0 s') + ' to ' + duration(this.value((bin + 1) / 24)) : 'within ' + duration(this.value(place.x));
    if (!pinned) tip(event, title, lists.map((list, position) => [policies[position].name, (share(list) * 100).toFixed(1) + ' % of jobs']));
    redraw();
  }
}
