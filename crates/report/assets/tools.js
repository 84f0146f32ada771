// Small tools, and numbers for people.
// Text from outside reaches the page through textContent or canvas text only, never as markup.
const $ = id => document.getElementById(id);
const head = JSON.parse($('head').textContent);
const NEVER = 0xffffffff;
const STATUS = ['pending', 'waiting', 'running', 'completed', 'failed'];
const ENDING = ['finished', 'preempted', 'node lost', 'failed', 'cut by the end of the run'];
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

function element(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// Colours of the theme, for canvases. Series colours are lifted on a dark ground.
const ink = {};
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['panel', 'ink', 'quiet', 'grid', 'axis', 'waiting', 'failed', 'away']) ink[name] = style.getPropertyValue('--' + name).trim();
  ink.lift = document.documentElement.dataset.theme === 'dark' ? 0.22 : 0;
  ink.jobs = head.jobs.palette.map(toned);
}
const channels = colour => [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
const toned = colour => 'rgb(' + channels(colour).map(value => Math.round(value + (255 - value) * ink.lift)).join(' ') + ')';

// Index of the first element of sorted `values` that is above `goal`.
function firstAbove(values, goal, from = 0, until = values.length) {
  while (from < until) {
    const middle = (from + until) >> 1;
    if (values[middle] > goal) until = middle; else from = middle + 1;
  }
  return from;
}

const UNITS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's'], [1e-3, 'ms'], [1e-6, 'µs']];
const unitFor = seconds => UNITS.find(([size]) => seconds >= size * (size > 1 ? 2 : 1)) || UNITS[seconds === 0 ? 3 : 5];
function significant(value) {
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString('en');
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 0.1 || size === 0) return value.toFixed(2);
  return size >= 1e-4 ? value.toFixed(4) : value.toExponential(2);
}
function duration(seconds) {
  if (seconds === 0) return '0 s';
  const [size, name] = unitFor(Math.abs(seconds));
  return significant(seconds / size) + ' ' + name;
}
// A moment after the start of the run: by the clock where the run was a real one.
const clockOf = seconds => new Date(head.clock_zero_ms + (seconds + head.origin_seconds) * 1000);
const two = value => String(value).padStart(2, '0');
const timeOfDay = (date, step) => two(date.getHours()) + ':' + two(date.getMinutes()) + (step < 60 ? ':' + two(date.getSeconds()) : '');
const dayOf = date => date.toLocaleDateString('en', { day: 'numeric', month: 'short' });
const moment = seconds => head.clock_zero_ms === null ? duration(seconds + head.origin_seconds) : dayOf(clockOf(seconds)) + ' ' + clockOf(seconds).toLocaleTimeString('en-GB');
const FORMATS = {
  seconds: duration,
  count: value => Math.round(value).toLocaleString('en'),
  number: significant,
  usd: value => significant(value) + ' USD',
  jobs_per_h: value => significant(value) + ' jobs/h',
  percent: value => (value * 100).toFixed(1) + ' %',
  kwh: value => value < 1 ? significant(value * 1e3) + ' Wh' : value >= 1e4 ? significant(value / 1e3) + ' MWh' : significant(value) + ' kWh',
};
const shown = (metric, value) => value === null || value === undefined ? '–' : FORMATS[metric.format](value);
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 1728000];
function niceStep(span, count) {
  const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].find(factor => factor * power >= rough * 0.999) * power;
}
const timeStep = (span, count) => span / count < 1 ? niceStep(span, count) : TIME_STEPS.find(step => step >= span / count) || niceStep(span / 86400, count) * 86400;
const plain = value => (+value.toFixed(3)).toLocaleString('en');
