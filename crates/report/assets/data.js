// The packed columns, unpacked once, and the schedule indexed by GPU and by job.
async function inflate(text) {
  const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
let bytes;
try {
  bytes = await inflate($('data').textContent.trim());
} catch (error) {
  $('problem').hidden = false;
  $('problem').textContent = 'This page holds its data compressed, and this browser cannot unpack it (' + error.message + '). A browser of 2023 or later can.';
  throw error;
}
function column(name) {
  if (!head.columns[name]) return null;
  const [width, offset, length] = head.columns[name];
  if (width === 0) return JSON.parse(new TextDecoder().decode(bytes.subarray(offset, offset + length)));
  const values = width === 1 ? new Uint8Array(length) : width === 2 ? new Uint16Array(length) : new Uint32Array(length);
  for (let plane = 0; plane < width; plane++) {
    const from = offset + plane * length;
    for (let row = 0; row < length; row++) values[row] |= bytes[from + row] << (8 * plane);
  }
  return values;
}
const floats = name => { const bits = column(name); return bits && new Float32Array(bits.buffer); };
const sums = values => { let sum = 0; for (let row = 0; row < values.length; row++) values[row] = sum = (sum + values[row]) >>> 0; return values; };
const tick = head.tick_seconds;
function seconds(ticks, offset) {
  const values = new Float64Array(ticks.length);
  for (let row = 0; row < ticks.length; row++) values[row] = ticks[row] === NEVER ? NaN : ticks[row] * tick + (offset ? offset[row] : 0);
  return values;
}

const jobs = { arrival: seconds(sums(column('arrival'))) };
for (const name of ['gpus', 'share', 'colour', 'kind', 'user', 'labels']) jobs[name] = column(name);
const count = jobs.gpus.length;
const jobName = row => jobs.labels ? jobs.labels[row] : String(row * head.stride);
const { kinds, users, palette } = head.jobs;

function readPolicy(entry, position) {
  const prefix = 'p' + position + '_';
  const read = name => column(prefix + name);
  const policy = { ...entry, status: read('status'), preemptions: read('preemptions'), energy: floats(prefix + 'energy') };
  policy.start = seconds(read('start'), jobs.arrival);
  policy.end = seconds(read('end'), jobs.arrival);
  policy.running = seconds(read('running'));
  policy.jct = policy.end.map((end, row) => policy.status[row] === 3 ? end - jobs.arrival[row] : NaN);
  // Times are rounded to ticks one by one; a wait within that rounding is none.
  policy.wait = policy.jct.map((jct, row) => Math.abs(jct - policy.running[row]) < 2.5 * tick ? 0 : jct - policy.running[row]);
  if (read('bar_job')) policy.bars = readBars(read);
  policy.heat = read('heat');
  policy.heatRow = read('heat_row');
  const borders = floats(prefix + 'series_seconds');
  if (borders) {
    policy.series = { seconds: borders };
    for (const name of ['utilisation', 'watts', 'waiting']) policy.series[name] = floats(prefix + 'series_' + name);
  }
  return policy;
}
// Bars, and for each GPU and each job the bars on it in order of start.
function readBars(read) {
  const bars = { job: read('bar_job'), start: seconds(sums(read('bar_start'))), ending: read('bar_ending') };
  const length = read('bar_length'), heights = read('bar_height'), overhead = read('bar_overhead'), gang = read('bar_gang'), gpu = read('bar_gpu');
  bars.end = bars.start.map((start, bar) => start + length[bar] * tick);
  bars.ready = bars.start.map((start, bar) => start + overhead[bar] * tick);
  const owner = new Uint32Array(gpu.length);
  for (let bar = 0, at = 0; bar < gang.length; bar++) for (let left = gang[bar]; left > 0; left--) owner[at++] = bar;
  bars.byGpu = group(gpu, owner, head.gpu_count, read('bar_offset'), heights);
  bars.byJob = group(bars.job, null, count, null, null);
  return bars;
}
function group(keys, values, size, offsets, heights) {
  const first = new Uint32Array(size + 1);
  for (const key of keys) first[key + 1]++;
  for (let key = 0; key < size; key++) first[key + 1] += first[key];
  const next = first.slice(), bars = new Uint32Array(keys.length);
  const offset = offsets && new Uint16Array(keys.length), height = heights && new Uint16Array(keys.length);
  for (let row = 0; row < keys.length; row++) {
    const at = next[keys[row]]++;
    bars[at] = values ? values[row] : row;
    if (offset) { offset[at] = offsets[row]; height[at] = heights[row]; }
  }
  return { first, bars, offset, height };
}
const policies = head.policies.map(readPolicy);
bytes = null;
const gpuNode = new Uint32Array(head.gpu_count);
head.nodes.forEach(([, first, size], node) => gpuNode.fill(node, first, first + size));
const gpuName = gpu => head.nodes.length === 1 ? 'GPU ' + gpu : head.nodes[gpuNode[gpu]][0] + ':' + (gpu - head.nodes[gpuNode[gpu]][1]);
const isEmpty = !policies.some(policy => policy.until > 0);
const last = Math.max(1e-3, ...policies.map(policy => policy.until));
// The recorder's readings of each GPU, as steps; null where nothing was read.
function readGauge(gpu, position) {
  const series = { seconds: [], utilisation: [], watts: [] };
  gpu.from.forEach((from, at) => {
    const start = from - head.origin_seconds, before = series.seconds.at(-1);
    if (before !== undefined && start > before + 0.5) { series.utilisation.push(null); series.watts.push(null); series.seconds.push(start); }
    if (before === undefined) series.seconds.push(start);
    series.utilisation.push(gpu.utilisation[at]);
    series.watts.push(gpu.watts[at]);
    series.seconds.push(gpu.until[at] - head.origin_seconds);
  });
  const { colour, dash, isStrong } = head.looks[position % head.looks.length];
  return { name: gpu.name, colour, dash, isStrong, series };
}
const gauges = (head.gauges?.gpus || []).map(readGauge);

