// What all views share: the window of time and rows, the filter, the tooltip, and how a pointer moves them.
const state = { policy: 0, beside: -1, rows: 'gpu', from: 0, until: last, rowFrom: 0, rowUntil: 1, filter: '', matches: null, logarithmic: true, sort: 'arrival', down: false, page: 0, chosen: -1, cross: null };
let views = [];
let pending = false;
const redraw = () => {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; views.forEach(view => view.draw()); });
};

function applyFilter() {
  const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
  state.matches = null;
  if (words.length) {
    const mask = new Uint8Array(count).fill(1), policy = policies[state.policy];
    for (const word of words) {
      const kindHit = kinds.map(text => text.toLowerCase().includes(word)), userHit = users.map(text => text.toLowerCase().includes(word));
      const statusHit = STATUS.map(text => text.startsWith(word));
      for (let row = 0; row < count; row++) {
        if (mask[row] && !(kindHit[jobs.kind[row]] || userHit[jobs.user[row]] || statusHit[policy.status[row]] || jobName(row).toLowerCase().includes(word))) mask[row] = 0;
      }
    }
    state.matches = mask;
  }
  const hits = state.matches ? state.matches.reduce((sum, hit) => sum + hit, 0) : count;
  $('matches').textContent = state.matches ? hits.toLocaleString('en') + ' of ' + count.toLocaleString('en') + ' jobs match;' : '';
  state.page = 0;
  jobsTable();
  redraw();
}

let pinned = false;
function tip(event, title, rows) {
  const box = $('tip');
  if (!title) { if (!pinned) box.hidden = true; return; }
  const list = element('dl');
  for (const [name, value] of rows) list.append(element('dt', { textContent: name }), element('dd', { textContent: value }));
  box.replaceChildren(element('strong', { textContent: title }), list);
  box.hidden = false;
  box.classList.toggle('pinned', pinned);
  const { width, height } = box.getBoundingClientRect();
  box.style.left = clamp(event.clientX + 14, 4, Math.max(4, innerWidth - width - 8)) + 'px';
  box.style.top = clamp(event.clientY + 14, 4, Math.max(4, innerHeight - height - 8)) + 'px';
}
const unpin = () => { pinned = false; state.chosen = -1; $('tip').hidden = true; redraw(); };
function jobRows(policy, row) {
  const at = value => Number.isNaN(value) ? '–' : moment(value);
  const span = value => Number.isNaN(value) ? '–' : duration(value);
  const share = jobs.share[row] < 1000 ? ' × ' + jobs.share[row] / 1000 : '';
  return [['type', kinds[jobs.kind[row]] || '–'], ['user', users[jobs.user[row]] || '–'], ['GPUs', jobs.gpus[row] + share], ['arrival', at(jobs.arrival[row])], ['start', at(policy.start[row])],
    ['finish', at(policy.end[row])], ['wait', span(policy.wait[row])], ['JCT', span(policy.jct[row])], ['preemptions', String(policy.preemptions[row])], ['energy', FORMATS.kwh(policy.energy[row] / 1000)], ['status', STATUS[policy.status[row]]]];
}

// What can be zoomed: the names of its two ends in the state, its whole size, and the smallest part shown.
const TIME = ['from', 'until', last, last * 1e-7], ROWS = ['rowFrom', 'rowUntil', 1, 1e-4];
function show([from, until, size], start, span) {
  state[from] = clamp(start, 0, size - span);
  state[until] = state[from] + span;
  redraw();
}
function zoom(what, factor, at = 0.5) {
  const [from, until, size, least] = what, span = clamp((state[until] - state[from]) * factor, least, size);
  show(what, state[from] + (state[until] - state[from] - span) * at, span);
}
const move = (what, fraction) => show(what, state[what[0]] + (state[what[1]] - state[what[0]]) * fraction, state[what[1]] - state[what[0]]);
const whole = () => { Object.assign(state, { from: 0, until: last, rowFrom: 0, rowUntil: 1 }); redraw(); };
function makeMovable(view, hasRows) {
  const node = view.node;
  let dragged = null;
  node.classList.add('movable');
  node.addEventListener('wheel', event => {
    const at = view.inside(event), factor = Math.exp(clamp(event.deltaY || event.deltaX, -240, 240) * 0.002);
    if (event.shiftKey && hasRows) { event.preventDefault(); zoom(ROWS, factor, clamp(at.y, 0, 1)); return; }
    // Fully zoomed out, the wheel belongs to the page again.
    if (factor > 1 && state.until - state.from >= last) return;
    event.preventDefault();
    zoom(TIME, factor, clamp(at.x, 0, 1));
  }, { passive: false });
  node.addEventListener('pointerdown', event => { dragged = { x: event.clientX, y: event.clientY, moved: false }; node.setPointerCapture(event.pointerId); });
  node.addEventListener('pointermove', event => {
    if (!dragged) { view.hover(event, view.inside(event)); return; }
    const dx = event.clientX - dragged.x, dy = event.clientY - dragged.y;
    if (!dragged.moved && Math.hypot(dx, dy) < 4) return;
    Object.assign(dragged, { x: event.clientX, y: event.clientY, moved: true });
    node.classList.add('moving');
    if (hasRows) move(ROWS, -dy / view.plotHeight);
    move(TIME, -dx / view.plotWidth);
  });
  const drop = event => {
    node.classList.remove('moving');
    if (dragged && !dragged.moved && event.type === 'pointerup' && view.click) view.click(event, view.inside(event));
    dragged = null;
  };
  node.addEventListener('pointerup', drop);
  node.addEventListener('pointercancel', drop);
  node.addEventListener('pointerleave', () => { tip(); state.cross = null; redraw(); });
  node.addEventListener('keydown', event => {
    const act = {
      ArrowLeft: () => move(TIME, -0.2), ArrowRight: () => move(TIME, 0.2), ArrowUp: () => move(ROWS, -0.2), ArrowDown: () => move(ROWS, 0.2),
      '+': () => zoom(TIME, 0.7), '=': () => zoom(TIME, 0.7), '-': () => zoom(TIME, 1 / 0.7), 0: whole, Escape: unpin,
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
}
