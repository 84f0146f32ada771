// Curves over time, and distributions of times over jobs.
class Lines extends Canvas {
  constructor(parent, caption, field, form, ceiling) {
    super(parent, caption, 190, caption + ' over time');
    Object.assign(this, { field, form, ceiling });
    makeMovable(this, false);
  }
  draw() {
    const context = this.begin(), curves = policies.filter(policy => policy.series);
    this.timeAxis(state.from, state.until);
    if (!curves.length) { this.message(isEmpty ? 'no job ran' : 'no timeline was recorded in this run'); return; }
    const top = this.ceiling || Math.max(1e-9, ...curves.map(policy => policy.series[this.field].reduce((high, value) => Math.max(high, value), 0)));
    const y = this.valueAxis(top < 1e-6 ? 1 : top, this.form), x = time => this.left + (time - state.from) / (state.until - state.from) * this.plotWidth;
    this.clip();
    for (const policy of curves) {
      const { seconds: borders } = policy.series, values = policy.series[this.field];
      context.beginPath();
      const from = Math.max(0, firstAbove(borders, state.from) - 2);
      for (let slice = from; slice < values.length && borders[slice] <= state.until; slice++) {
        context.lineTo(x(borders[slice]), y(values[slice]));
        context.lineTo(x(borders[slice + 1]), y(values[slice]));
      }
      context.strokeStyle = toned(policy.colour);
      context.lineWidth = 1.4;
      context.stroke();
      if (curves.length === 1) {
        context.lineTo(x(borders[borders.length - 1]), y(0));
        context.lineTo(x(borders[from]), y(0));
        context.globalAlpha = 0.14;
        context.fillStyle = toned(policy.colour);
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
    const rows = policies.filter(policy => policy.series).map(policy => {
      const slice = firstAbove(policy.series.seconds, state.cross) - 1, value = policy.series[this.field][slice];
      return [policy.name, value === undefined ? '–' : this.form(+value.toFixed(3))];
    });
    if (!pinned) tip(event, 'at ' + duration(state.cross + head.origin_seconds), rows);
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
    lists.forEach((list, position) => {
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
      context.strokeStyle = toned(policies[position].colour);
      context.lineWidth = 1.8;
      context.stroke();
    });
  }
  drawHistogram(lists) {
    const bins = this.bins = 24, shares = lists.map(list => Array.from({ length: bins }, (_, bin) => this.between(list, bin / bins, (bin + 1) / bins)));
    const y = this.valueAxis(Math.max(0.01, ...shares.flat()), value => plain(value * 100) + ' %'), slot = this.plotWidth / bins, width = (slot - 2) / lists.length;
    shares.forEach((values, position) => {
      const colour = toned(policies[position].colour);
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
