// The schedule by GPU or by job.
class Gantt extends Canvas {
  constructor(parent, position) {
    super(parent, policies.length > 1 ? policies[position].name : '', clamp(state.rows === 'gpu' ? head.gpu_count * 26 + 46 : count * 18 + 46, 180, 600), 'schedule of ' + policies[position].name);
    this.policy = policies[position];
    this.left = 96;
    makeMovable(this, true);
  }
  // The rows now shown: GPUs, or the jobs that are active in the window, in order of arrival.
  rows() {
    if (state.rows === 'gpu') return { length: head.gpu_count, at: row => row, name: gpuName };
    const list = [], { end } = this.policy;
    for (let row = 0; row < count && jobs.arrival[row] <= state.until; row++) {
      if (!(end[row] < state.from) && this.policy.status[row] > 0 && (!state.matches || state.matches[row])) list.push(row);
    }
    return { length: list.length, at: row => list[row], name: jobName };
  }
  draw() {
    this.begin();
    this.timeAxis(state.from, state.until);
    const bars = this.policy.bars;
    if (!bars || !bars.job.length) { this.message(bars ? 'no job ran' : 'no timeline was recorded in this run'); return; }
    const rows = this.shownRows = this.rows();
    if (!rows.length) { this.message(state.matches ? 'no job matches here' : 'no job is active here'); return; }
    const first = state.rowFrom * rows.length, visible = Math.max(1e-9, (state.rowUntil - state.rowFrom) * rows.length);
    this.rowHeight = Math.min(this.plotHeight / visible, state.rows === 'gpu' ? 60 : 22);
    this.firstRow = first;
    this.clip();
    if (state.rows === 'gpu') this.drawAbsences();
    if (state.rows === 'gpu' && this.policy.heat) this.drawHeat(); else this.drawRows(rows, bars);
    this.context.restore();
    this.drawNames(rows);
  }
  drawRows(rows, bars) {
    // Rows thinner than a pixel are thinned out to one a pixel.
    const step = Math.max(1, 1 / this.rowHeight), until = Math.min(rows.length, this.firstRow + this.plotHeight / this.rowHeight + 1);
    for (let position = Math.floor(this.firstRow); position < until; position += step) {
      const row = rows.at(Math.floor(position)), y = this.top + (Math.floor(position) - this.firstRow) * this.rowHeight;
      const height = Math.max(1, this.rowHeight - (this.rowHeight > 5 ? 1 : 0));
      if (state.rows === 'job') this.drawWait(row, y, height);
      this.drawBars(row, y, height, state.rows === 'gpu' ? bars.byGpu : bars.byJob, bars);
    }
  }
  x(time) { return this.left + (time - state.from) / (state.until - state.from) * this.plotWidth; }
  drawWait(row, y, height) {
    const end = this.policy.end[row], x = this.x(jobs.arrival[row]);
    this.fill(ink.waiting, x, y, Math.max(1, this.x(Number.isNaN(end) ? this.policy.until : end) - x), height);
  }
  // The rectangles of one row, as they are drawn: its bars in the lanes that the layout gave them. Bars of a lane never overlap, also
  // where they are narrower than a pixel: what would lie on a bar that is there already begins behind it or is left out.
  barsOf(row, y, height, index, bars) {
    const inLanes = state.rows === 'gpu' && index.offset, rectangles = [], there = [];
    for (let at = index.first[row]; at < index.first[row + 1]; at++) {
      const bar = index.bars[at];
      if (bars.end[bar] < state.from) continue;
      if (bars.start[bar] > state.until) break;
      const offset = inLanes ? index.offset[at] / 1000 : 0, share = inLanes ? index.height[at] / 1000 : 1;
      const top = y + height * (1 - offset - share), bottom = top + height * share, end = this.x(bars.end[bar]);
      const start = this.x(bars.start[bar]);
      let x = start;
      for (let other = there.length - 1; other >= 0; other--) {
        const known = there[other];
        if (known.right <= start) there.splice(other, 1);
        else if (known.top < bottom - 1e-6 && known.bottom > top + 1e-6) x = Math.max(x, known.right);
      }
      if (x > start && end <= x) continue;
      const right = Math.max(x + 0.8, end);
      there.push({ right, top, bottom });
      rectangles.push({ bar, job: bars.job[bar], x, y: top, width: right - x, height: bottom - top });
    }
    return rectangles;
  }
  drawBars(row, y, height, index, bars) {
    const context = this.context;
    for (const one of this.barsOf(row, y, height, index, bars)) {
      context.globalAlpha = state.matches && !state.matches[one.job] || state.chosen >= 0 && state.chosen !== one.job ? 0.16 : 1;
      this.fill(ink.jobs[jobs.colour[one.job]], one.x, one.y, one.width > 3 ? one.width - 0.7 : one.width, one.height > 3 ? one.height - 0.5 : one.height);
      if (one.width > 3) this.decorate(bars, one.bar, one.x, one.y, one.width, one.height);
    }
    context.globalAlpha = 1;
  }
  // All rectangles of the rows in view, for checks from outside.
  layout() {
    const bars = this.policy.bars, rows = this.shownRows, height = Math.max(1, this.rowHeight - (this.rowHeight > 5 ? 1 : 0)), all = [];
    if (!bars || !rows) return all;
    for (let row = 0; row < rows.length; row++) {
      const y = this.top + (row - this.firstRow) * this.rowHeight;
      for (const one of this.barsOf(rows.at(row), y, height, state.rows === 'gpu' ? bars.byGpu : bars.byJob, bars)) all.push({ row, rowTop: y, rowBottom: y + this.rowHeight, ...one });
    }
    return all;
  }
  decorate(bars, bar, x, y, width, height) {
    const context = this.context, ready = clamp(this.x(bars.ready[bar]), x, x + width);
    if (ready > x + 0.5) this.fill('rgb(255 255 255 / 50%)', x, y, ready - x, height);
    const ending = bars.ending[bar];
    if (ending >= 1 && ending <= 3) this.fill(ending === 1 ? ink.ink : ink.failed, x + width - 2.2, y, 1.6, height);
    if (height < 10 || state.rows === 'job') return;
    const name = jobName(bars.job[bar]), from = Math.max(ready, this.left), room = Math.min(x + width, this.left + this.plotWidth) - from;
    if (room < 12 || context.measureText(name).width + 6 > room) return;
    const [red, green, blue] = channels(palette[jobs.colour[bars.job[bar]]]);
    context.fillStyle = 0.299 * red + 0.587 * green + 0.114 * blue < 140 ? '#fff' : '#1f2933';
    context.textAlign = 'center';
    context.fillText(name, from + room / 2, y + height / 2 + 4);
  }
  drawAbsences() {
    for (const [node, from, until] of this.policy.absences) {
      const [, first, size] = head.nodes[node];
      this.fill(ink.away, this.x(from), this.top + (first - this.firstRow) * this.rowHeight, Math.max(1, this.x(until) - this.x(from)), size * this.rowHeight);
    }
  }
  // Pages that cannot hold all bars have the share of each row allocated instead, as a picture that is stretched.
  drawHeat() {
    const { heat, heatRow, until } = this.policy, rows = heatRow[heatRow.length - 1] + 1, slices = heat.length / rows, context = this.context;
    if (!this.heatImage) {
      this.heatImage = element('canvas', { width: slices, height: rows });
      const image = new ImageData(slices, rows), [red, green, blue] = channels(palette[0]);
      heat.forEach((level, at) => image.data.set([red, green, blue, level], at * 4));
      this.heatImage.getContext('2d').putImageData(image, 0, 0);
    }
    context.imageSmoothingEnabled = false;
    for (let gpu = 0, next; gpu < heatRow.length; gpu = next) {
      for (next = gpu; heatRow[next] === heatRow[gpu];) next++;
      context.drawImage(this.heatImage, 0, heatRow[gpu], slices, 1, this.x(0), this.top + (gpu - this.firstRow) * this.rowHeight, this.x(until) - this.x(0), (next - gpu) * this.rowHeight);
    }
  }
  drawNames(rows) {
    const context = this.context, every = Math.max(1, Math.ceil(14 / this.rowHeight));
    context.textAlign = 'right';
    context.fillStyle = ink.quiet;
    for (let row = Math.ceil(this.firstRow / every) * every; row < rows.length; row += every) {
      const y = this.top + (row - this.firstRow + 0.5) * this.rowHeight;
      if (y > this.top + this.plotHeight) break;
      let name = rows.name(rows.at(row));
      while (name.length > 1 && context.measureText(name).width > this.left - 10) name = name.slice(0, -2) + '…';
      context.fillText(name, this.left - 6, y + 4);
    }
  }
  find(place) {
    const bars = this.policy.bars;
    if (!bars || !this.shownRows || place.x < 0 || place.x > 1 || place.y < 0 || place.y > 1) return null;
    const time = state.from + place.x * (state.until - state.from), position = this.firstRow + place.y * this.plotHeight / this.rowHeight;
    if (position >= this.shownRows.length) return null;
    const row = this.shownRows.at(Math.floor(position));
    if (state.rows === 'job') return { job: row, where: '' };
    if (this.policy.heat) return null;
    const index = bars.byGpu, height = 1 - position % 1, slack = (state.until - state.from) / this.plotWidth;
    for (let at = index.first[row + 1] - 1; at >= index.first[row]; at--) {
      const bar = index.bars[at];
      if (bars.start[bar] > time + slack || bars.end[bar] < time - slack) continue;
      const offset = index.offset ? index.offset[at] / 1000 : 0;
      if (height >= offset && height <= offset + (index.height ? index.height[at] / 1000 : 1)) return { job: bars.job[bar], where: gpuName(row) + ', ' + ENDING[bars.ending[bar]] };
    }
    return null;
  }
  hover(event, place) {
    if (pinned) return;
    this.describe(event, this.find(place));
  }
  describe(event, hit) {
    if (!hit) tip(); else tip(event, 'job ' + jobName(hit.job), [...(hit.where ? [['bar', hit.where]] : []), ...jobRows(this.policy, hit.job)]);
  }
  click(event, place) {
    const hit = this.find(place);
    unpin();
    if (!hit) return;
    state.chosen = hit.job;
    pinned = true;
    this.describe(event, hit);
    redraw();
  }
}
