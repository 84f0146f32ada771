// Puts the page together.
function schedules() {
  views = views.filter(view => !(view instanceof Gantt));
  $('gantts').replaceChildren();
  const shownPolicies = state.beside >= 0 && state.beside !== state.policy ? [state.policy, state.beside] : [state.policy];
  for (const position of shownPolicies) views.push(new Gantt($('gantts'), position));
  redraw();
}
function legendOf(parent, entries) {
  parent.replaceChildren(...entries.map(([colour, name]) => {
    return element('span', { title: name }, element('i', { style: 'background:' + (colour[0] === '#' ? toned(colour) : colour) }), name);
  }));
}
function legends() {
  legendOf($('legend'), [...state.rows === 'job' ? [['var(--waiting)', 'waiting']] : [], ...head.jobs.legend]);
  document.querySelectorAll('.legend.policies').forEach(node => lineLegend(node, policies));
  lineLegend($('gauges-legend'), gauges);
}
function rowsAre(kind) {
  state.rows = kind;
  Object.assign(state, { rowFrom: 0, rowUntil: 1 });
  $('by-gpu').setAttribute('aria-pressed', String(kind === 'gpu'));
  $('by-job').setAttribute('aria-pressed', String(kind === 'job'));
  schedules();
  legends();
}
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $('theme').textContent = theme === 'dark' ? 'light' : 'dark';
  $('theme').setAttribute('aria-label', 'switch to the ' + $('theme').textContent + ' theme');
  readTheme();
  metricCharts();
  metricsTable();
  legends();
  redraw();
}
function controls() {
  const options = policies.map((policy, position) => element('option', { value: position, textContent: policy.name }));
  $('policy').append(...options);
  $('beside').append(element('option', { value: -1, textContent: 'nothing' }), ...options.map(option => option.cloneNode(true)));
  if (policies.length < 2) document.querySelectorAll('.several, .legend.policies').forEach(node => { node.hidden = true; });
  $('policy').onchange = event => { state.policy = +event.target.value; unpin(); schedules(); applyFilter(); };
  $('beside').onchange = event => { state.beside = +event.target.value; unpin(); schedules(); };
  $('by-gpu').onclick = () => rowsAre('gpu');
  $('by-job').onclick = () => rowsAre('job');
  $('reset').onclick = whole;
  $('closer').onclick = () => zoom(TIME, 0.6);
  $('farther').onclick = () => zoom(TIME, 1 / 0.6);
  let timer;
  $('filter').oninput = event => { clearTimeout(timer); timer = setTimeout(() => { state.filter = event.target.value; applyFilter(); }, 120); };
  $('logarithmic').onchange = event => { state.logarithmic = event.target.checked; redraw(); };
  $('theme').onclick = () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
  document.addEventListener('keydown', event => { if (event.key === 'Escape') unpin(); });
  // A few times apart read best as they are; orders of magnitude apart, only on a logarithmic axis.
  const lists = policies.map(policy => sortedOf(policy, 'jct')), at = fraction => lists.map(list => list[Math.floor((list.length - 1) * fraction)] ?? 0);
  state.logarithmic = $('logarithmic').checked = Math.max(...at(1)) > 60 * Math.min(...at(0.02));
}

setTheme(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', event => setTheme(event.matches ? 'dark' : 'light'));
controls();
rowsAre('gpu');
const peak = Math.max(0, ...policies.filter(policy => policy.series).map(policy => policy.series.watts.reduce((high, value) => Math.max(high, value), 0)));
views.push(new Lines($('series'), 'GPUs allocated', policies, 'utilisation', value => plain(value * 100) + ' %', 1));
const watts = value => peak >= 1000 ? plain(value / 1000) + ' kW' : plain(value) + ' W';
if (!gauges.length) views.push(new Lines($('series'), 'power, modelled', policies, 'watts', watts));
views.push(new Lines($('series'), 'jobs waiting', policies, 'waiting', plain));
if (gauges.length) {
  $('gauges-section').hidden = false;
  $('gauges-title').textContent = head.gauges.heading;
  views.push(new Lines($('gauges'), 'GPU busy', gauges, 'utilisation', value => plain(value * 100) + ' %', 1));
  views.push(new Lines($('gauges'), 'power', gauges, 'watts', value => plain(value) + ' W'));
}
views.push(new Spread($('spreads'), 'job completion time, cumulative', 'jct', false));
views.push(new Spread($('spreads'), 'waiting time, cumulative', 'wait', false));
views.push(new Spread($('spreads'), 'waiting time, histogram', 'wait', true));
applyFilter();
// What is drawn where, for checks from outside.
globalThis.rotaReport = {
  rowsAre,
  layout: () => views.filter(view => view instanceof Gantt).map(view => view.layout()),
  show(from, until) { Object.assign(state, { from: from * last, until: until * last }); views.forEach(view => view.draw()); },
};
