// Metrics as a table and as bars, and the table of jobs.
const known = values => values.filter(value => value !== null && value !== undefined);
const order = { by: null, down: false };
// The policies in the order of the column that was clicked; what is not known comes last.
function orderedPolicies() {
  const positions = policies.map((_, position) => position);
  if (order.by === null) return positions;
  const key = position => order.by === 'policy' ? policies[position].name : policies[position].summary[order.by];
  const sign = order.down ? -1 : 1, isMissing = value => value === null || value === undefined;
  return positions.sort((a, b) => isMissing(key(a)) - isMissing(key(b)) || (key(a) < key(b) ? -sign : key(a) > key(b) ? sign : a - b));
}
function sortHeading(key, words, meaning, firstDown) {
  const isSorted = order.by === key, button = element('button', { type: 'button', textContent: words + (isSorted ? order.down ? ' ▼' : ' ▲' : ''), title: meaning });
  button.onclick = () => {
    order.down = isSorted ? !order.down : firstDown;
    order.by = key;
    metricsTable();
    [...$('metrics').querySelectorAll('th')].find(cell => cell.getAttribute('aria-sort') !== 'none')?.querySelector('button').focus();
  };
  const cell = element('th', { scope: 'col', title: meaning }, button);
  cell.setAttribute('aria-sort', isSorted ? order.down ? 'descending' : 'ascending' : 'none');
  return cell;
}
const arrowOf = metric => metric.better < 0 ? ' ↓' : metric.better > 0 ? ' ↑' : '';
// One policy alone is a list of its metrics; several are rows that can be sorted by each metric.
function metricsTable() {
  const isSingle = policies.length < 2, body = element('tbody'), top = element('tr');
  if (isSingle) {
    for (const metric of head.metrics) {
      body.append(element('tr', {}, element('th', { scope: 'row', title: metric.meaning, textContent: metric.label }), element('td', { textContent: shown(metric, policies[0]?.summary[metric.key]) })));
    }
  } else {
    const metrics = head.metrics.filter(metric => policies.some(policy => policy.summary[metric.key] !== null));
    top.append(sortHeading('policy', 'policy', 'sort by name', false), ...metrics.map(metric => sortHeading(metric.key, metric.label + arrowOf(metric), metric.meaning, metric.better > 0)));
    for (const position of orderedPolicies()) {
      const name = element('th', { scope: 'row' }, element('i', { className: 'swatch', style: 'background:' + toned(policies[position].colour) }), policies[position].name);
      body.append(element('tr', {}, name, ...metrics.map(metric => element('td', { textContent: shown(metric, policies[position].summary[metric.key]), className: metric.best === position ? 'best' : '' }))));
    }
  }
  $('metrics').replaceChildren(element('table', {}, ...isSingle ? [] : [element('thead', {}, top)], body));
  $('metrics').classList.toggle('single', isSingle);
  $('metrics-hint').textContent = isSingle ? 'point at a metric for its meaning' : '↓ less is better, ↑ more is better; the best is marked where no other looks the same; click a heading to sort';
}
function metricCharts() {
  $('charts').replaceChildren();
  if (policies.length < 2) return;
  for (const metric of head.metrics.filter(entry => entry.charted)) {
    const values = policies.map(policy => policy.summary[metric.key]);
    if (!known(values).length) continue;
    const largest = Math.max(...known(values));
    const better = metric.better < 0 ? 'less is better' : 'more is better';
    const chart = element('figure', { title: metric.meaning }, element('figcaption', {}, metric.label + ' ', element('span', { className: 'quiet', textContent: better, style: 'font-weight:400' })));
    policies.forEach((policy, position) => {
      const bar = element('i');
      bar.style.width = (largest > 0 ? 100 * (values[position] ?? 0) / largest : 0) + '%';
      bar.style.background = toned(policy.colour);
      // Where the best look the same, none is marked and none is dimmed.
      const row = element('div', { className: 'bar' + (metric.best === position ? ' best' : metric.best === null ? ' even' : '') });
      row.append(element('span', { textContent: policy.name, title: policy.name }), element('div', {}, bar), element('span', { textContent: shown(metric, values[position]) }));
      chart.append(row);
    });
    $('charts').append(chart);
  }
}

const PAGE = 100;
const COLUMNS = [
  ['job', 'id', row => row, jobName, true], ['type', 'kind', row => kinds[jobs.kind[row]], row => kinds[jobs.kind[row]], true], ['user', 'user', row => users[jobs.user[row]], row => users[jobs.user[row]], true],
  ['GPUs', 'gpus', row => jobs.gpus[row] * jobs.share[row], row => jobs.gpus[row] + (jobs.share[row] < 1000 ? ' × ' + jobs.share[row] / 1000 : '')],
  ['arrival', 'arrival', row => jobs.arrival[row], null], ['start', 'start', (row, policy) => policy.start[row], null], ['finish', 'end', (row, policy) => policy.end[row], null],
  ['wait', 'wait', (row, policy) => policy.wait[row], 'span'], ['JCT', 'jct', (row, policy) => policy.jct[row], 'span'], ['preemptions', 'preemptions', (row, policy) => policy.preemptions[row], (row, policy) => String(policy.preemptions[row])],
  ['energy', 'energy', (row, policy) => policy.energy[row], (row, policy) => FORMATS.kwh(policy.energy[row] / 1000)], ['status', 'status', (row, policy) => policy.status[row], (row, policy) => STATUS[policy.status[row]], true],
];
function cellText([, , value, form], row, policy) {
  if (typeof form === 'function') return form(row, policy);
  const amount = value(row, policy);
  return Number.isNaN(amount) ? '–' : form === 'span' ? duration(amount) : moment(amount);
}
function jobsTable() {
  const policy = policies[state.policy], value = COLUMNS.find(entry => entry[1] === state.sort)[2];
  const rows = [], keys = new Array(count);
  for (let row = 0; row < count; row++) if (!state.matches || state.matches[row]) { rows.push(row); keys[row] = value(row, policy); }
  const sign = state.down ? -1 : 1, isMissing = key => key !== key;
  // Unknown values go last in both directions.
  if (state.sort !== 'arrival' && state.sort !== 'id' || state.down) {
    rows.sort((a, b) => isMissing(keys[a]) - isMissing(keys[b]) || (keys[a] < keys[b] ? -sign : keys[a] > keys[b] ? sign : a - b));
  }
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  state.page = clamp(state.page, 0, pages - 1);
  const top = element('tr');
  for (const entry of COLUMNS) {
    const isSorted = state.sort === entry[1], button = element('button', { type: 'button', textContent: entry[0] + (isSorted ? state.down ? ' ▼' : ' ▲' : '') });
    button.onclick = () => { state.down = isSorted && !state.down; state.sort = entry[1]; state.page = 0; jobsTable(); };
    const cell = element('th', { scope: 'col', className: entry[4] ? 'text' : '' }, button);
    cell.setAttribute('aria-sort', isSorted ? state.down ? 'descending' : 'ascending' : 'none');
    top.append(cell);
  }
  const body = element('tbody');
  for (const row of rows.slice(state.page * PAGE, (state.page + 1) * PAGE)) {
    const line = element('tr', { className: row === state.chosen ? 'chosen' : '' });
    for (const entry of COLUMNS) { const text = cellText(entry, row, policy); line.append(element('td', { textContent: text, className: entry[4] ? 'text' : '', title: entry[4] ? text : '' })); }
    body.append(line);
  }
  $('jobs').replaceChildren(rows.length ? element('table', {}, element('thead', {}, top), body) : element('div', { className: 'empty', textContent: count ? 'no job matches the filter' : 'this run has no jobs' }));
  $('jobs-hint').textContent = (policies.length > 1 ? policy.name + ': ' : '') + rows.length.toLocaleString('en') + (rows.length === 1 ? ' job' : ' jobs') + (state.matches ? ' match the filter' : '') + '; click a heading to sort';
  const turn = (text, page) => { const button = element('button', { type: 'button', textContent: text, disabled: page < 0 || page >= pages || page === state.page }); button.onclick = () => { state.page = page; jobsTable(); }; return button; };
  $('pages').replaceChildren(...pages > 1 ? [turn('first', 0), turn('previous', state.page - 1), 'page ' + (state.page + 1).toLocaleString('en') + ' of ' + pages.toLocaleString('en'), turn('next', state.page + 1), turn('last', pages - 1)] : []);
}
