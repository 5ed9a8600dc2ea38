// Shows what a server counts: reads /status.json and /clients.json every two seconds, and keeps ten minutes of rates.
// Text of the server goes into the page by textContent alone.
"use strict";

const POLL_MS = 2000;
const ANSWER_MS = 5000;
const KEPT_SECONDS = 600;
const CLIENTS_MAX = 20;

// Numbers stay on one line with their units.
const GAP = "\u00a0";

const element = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- Numbers for people

function scaled(value, units, unit) {
  let index = 0;
  while (value >= 999.5 && index + 1 < units.length) {
    value /= 1000;
    index += 1;
  }
  const digits = value >= 99.5 || (index === 0 && Number.isInteger(value)) ? 0 : value >= 9.95 ? 1 : 2;
  return `${value.toFixed(digits)}${GAP}${units[index]}${unit}`.trim();
}

const bytes = (value) => scaled(value, ["", "k", "M", "G", "T", "P"], "B");
const perSecond = (value) => (value === null ? "–" : scaled(value, ["", "k", "M"], ""));
const bytesPerSecond = (value) => (value === null ? "–" : `${bytes(value)}/s`);

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.0009995) return `${Math.round(seconds * 1e6)}${GAP}µs`;
  if (seconds < 0.9995) return `${Number((seconds * 1e3).toPrecision(3))}${GAP}ms`;
  if (seconds < 120) return `${Number(seconds.toPrecision(3))}${GAP}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes}${GAP}min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}${GAP}h ${minutes % 60}${GAP}min` : `${Math.floor(hours / 24)}${GAP}d ${hours % 24}${GAP}h`;
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });

// ---- Figures out of /status.json

/** The sum over the samples of a family for which `matches`; null if the server has no such family. */
function sum(status, name, matches = () => true) {
  const family = status.metrics[name];
  if (!family) return null;
  return family.samples.filter((sample) => matches(sample.labels)).reduce((all, sample) => all + sample.value, 0);
}

/** The counters that charts and tables turn into rates. */
function counters(status) {
  const found = {
    received: sum(status, "gannet_rpc_received_bytes"),
    sent: sum(status, "gannet_rpc_sent_bytes"),
    calls: sum(status, "gannet_rpc_calls"),
    volumeReceived: sum(status, "gannet_volume_received_bytes"),
    volumeSent: sum(status, "gannet_volume_sent_bytes"),
    requests: sum(status, "gannet_volume_requests"),
  };
  for (const { labels, count } of operations(status)) found[key(labels)] = count;
  return found;
}

const operations = (status) => status.metrics.gannet_nfs_operation_seconds?.samples ?? [];
const key = (labels) => `operation ${labels.protocol} ${labels.procedure}`;

/** Rates between two readings; null where there are none. */
function rates(before, now) {
  const found = {};
  const seconds = before ? now.at - before.at : 0;
  for (const [name, value] of Object.entries(now.counters)) {
    // A counter that has just appeared counted from 0; one that fell is of another process.
    const from = before?.counters[name] ?? (before && name.startsWith("operation ") ? 0 : null);
    const isKnown = value !== null && from !== null && seconds > 0 && value >= from;
    found[name] = isKnown ? (value - from) / seconds : null;
  }
  return found;
}

// ---- Charts

/** A chart of rates over the last ten minutes, each line with the name of its colour. */
class Chart {
  constructor(id, format, lines) {
    this.id = id;
    this.format = format;
    this.lines = lines;
    this.data = [[], ...lines.map(() => [])];
    this.shown = null;
  }

  /** Lines that have had a value: a server without a volume has no line of it. */
  visible() {
    return this.lines.filter((_, index) => this.data[index + 1].some((value) => value !== null));
  }

  add(at, found) {
    this.data[0].push(at);
    this.lines.forEach((line, index) => this.data[index + 1].push(found[line.name] ?? null));
    while (this.data[0][0] < at - KEPT_SECONDS) this.data.forEach((column) => column.shift());
    const now = this.visible().map((line) => `${line.label} ${this.format(found[line.name] ?? null)}`);
    element(`${this.id}-now`).textContent = now.join(", ");
    this.draw();
  }

  draw() {
    const visible = this.visible();
    if (!this.plot || this.shown !== visible.length) {
      this.plot?.destroy();
      this.plot = this.make(visible);
      this.shown = visible.length;
    }
    const columns = this.lines.flatMap((line, index) => (visible.includes(line) ? [this.data[index + 1]] : []));
    this.plot.setData([this.data[0], ...columns]);
  }

  size() {
    const place = element(this.id);
    // Below the chart is its legend.
    return { width: place.clientWidth, height: place.clientHeight - 28 };
  }

  make(visible) {
    const axis = { stroke: () => colour("--muted"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false } };
    const format = this.format;
    const options = {
      ...this.size(),
      scales: {
        x: { range: () => [this.data[0].at(-1) - KEPT_SECONDS, this.data[0].at(-1)] },
        y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] },
      },
      axes: [{ ...axis, space: 70, size: 28, values: (_, splits) => splits.map(clock) }, { ...axis, size: 76, values: (_, splits) => splits.map(format) }],
      series: [
        {},
        ...visible.map((line) => ({
          label: line.label,
          stroke: () => colour(line.colour),
          width: 1.5,
          dash: line.dash,
          points: { show: false },
          value: (_, value) => format(value ?? null),
        })),
      ],
    };
    return new uPlot(options, [this.data[0], ...visible.map(() => [])], element(this.id));
  }

  resize() {
    this.plot?.setSize(this.size());
  }
}

const charts = [
  new Chart("throughput", bytesPerSecond, [
    { name: "received", label: "received", colour: "--first" },
    { name: "sent", label: "sent", colour: "--second" },
    { name: "volumeReceived", label: "volume received", colour: "--third", dash: [6, 3] },
    { name: "volumeSent", label: "volume sent", colour: "--fourth", dash: [6, 3] },
  ]),
  new Chart("operations", perSecond, [
    { name: "calls", label: "NFS calls", colour: "--first" },
    { name: "requests", label: "volume requests", colour: "--third", dash: [6, 3] },
  ]),
];

// ---- Tables

function cell(text, kind = "td", className = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  if (className) made.className = className;
  if (kind === "th") made.scope = "row";
  return made;
}

/** An address, whose lines may break at its colons alone. */
function addressCell(address, kind) {
  const made = cell("", kind, "words");
  made.append(...address.split(/(?<=:)/).flatMap((part) => [part, document.createElement("wbr")]));
  return made;
}

function fill(id, rows) {
  const body = element(id).tBodies[0];
  body.replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells);
    return row;
  }));
  element(id).hidden = false;
}

function showLatency(status, found) {
  const rows = operations(status).filter((sample) => sample.count > 0);
  const rate = (sample) => found[key(sample.labels)] ?? 0;
  rows.sort((one, other) => rate(other) - rate(one) || other.count - one.count);
  fill("latency", rows.map((sample) => [
    cell(sample.labels.procedure, "th"),
    cell(perSecond(found[key(sample.labels)] ?? null)),
    cell(duration(sample.p50_seconds)),
    cell(duration(sample.p99_seconds)),
  ]));
  element("latency-note").textContent = rows.length > 0 ? "" : "The server has executed no call yet.";
}

function connections(client) {
  const kinds = [["TCP", client.tcp_connections], ["RDMA", client.rdma_connections], ["native", client.native_connections]];
  return kinds.filter(([, count]) => count > 0).map(([kind, count]) => `${count}${GAP}${kind}`).join(", ") || "none";
}

function showClients(list) {
  const shown = list ? list.clients.slice(0, CLIENTS_MAX) : [];
  fill("clients", shown.map((client) => {
    const minute = (value) => (client.minute.seconds > 0 ? value / client.minute.seconds : null);
    return [
      addressCell(client.address ?? `client${GAP}${client.id}`, "th"),
      cell(connections(client), "td", "words"),
      cell(perSecond(minute(client.minute.operations))),
      cell(bytesPerSecond(minute(client.minute.received_bytes))),
      cell(bytesPerSecond(minute(client.minute.sent_bytes))),
    ];
  }));
  element("clients-note").textContent = clientsNote(list, shown);
}

function clientsNote(list, shown) {
  if (!list) return "This server has no list of clients.";
  if (shown.length === 0) return "No client is connected, or was in the last minute.";
  const more = list.clients.length - shown.length + list.more;
  const notes = [];
  if (more > 0) notes.push(`${more} more clients have done less.`);
  if (list.unlisted_connections > 0) notes.push(`${list.unlisted_connections} connections are of clients beyond the list.`);
  if (shown.some((client) => client.address === null)) {
    notes.push("Addresses are shown to networks that --admin-allow names.");
  }
  return notes.join(" ");
}

/** A sentence, and the command or the step that goes on. */
function advice(why, next) {
  const parts = [document.createTextNode(why ? `${why} ` : "")];
  if (next) parts.push(cell(next, "code"));
  return parts;
}

function showVolume(volume) {
  element("volume").hidden = !volume;
  if (!volume) return;
  element("servers-caption").textContent = `I/O servers of the volume ${volume.name}, term ${volume.term}`;
  fill("servers", volume.io_servers.map((server) => {
    const state = cell("", "td", "words");
    state.append(cell(server.state, "strong", server.state === "ready" ? "good" : "bad"), " ", ...advice(server.why, server.next));
    const hasSpace = server.space_bytes !== null && server.free_bytes !== null;
    return [
      cell(String(server.number), "th"),
      state,
      cell(duration(server.since_seconds)),
      addressCell(server.address ?? "–", "td"),
      cell(hasSpace ? `${bytes(server.free_bytes)} of ${bytes(server.space_bytes)}` : "–"),
    ];
  }));
  // The row of a server has its finding already.
  const findings = volume.findings.filter(({ what }) => !volume.io_servers.some((server) => server.why === what));
  element("findings-heading").hidden = findings.length === 0;
  element("findings").replaceChildren(...findings.map((finding) => {
    const item = document.createElement("li");
    item.append(...advice(finding.what, finding.next));
    return item;
  }));
}

// ---- The head

function showHealth(text, isGood) {
  const line = element("health");
  // Unchanged text is not written again: screen readers would speak it again.
  if (line.textContent !== text) line.textContent = text;
  line.className = isGood ? "good" : "bad";
  document.title = `${text.split(":")[0]} – Gannet ${location.host}`;
}

function showFacts(status) {
  const taken = sum(status, "gannet_budget_taken_bytes");
  const bound = sum(status, "gannet_budget_bytes");
  const hits = sum(status, "gannet_registration_hits") ?? 0;
  const uses = hits + (sum(status, "gannet_registrations") ?? 0);
  const facts = [
    ["up", duration(status.uptime_seconds)],
    ["cores", status.cores],
    ["NFS over TCP", status.nfs_tcp],
    ["NFS over RDMA", status.nfs_rdma],
    ["memory for clients", bound > 0 ? `${bytes(taken)} of ${bytes(bound)}` : null],
    ["registrations found", uses > 0 ? `${(100 * hits / uses).toFixed(1)} %` : null],
  ];
  element("version").textContent = status.version;
  element("facts").replaceChildren(...facts.filter(([, value]) => value !== null).map(([name, value]) => {
    const pair = document.createElement("div");
    pair.append(cell(name, "dt"), cell(String(value), "dd"));
    return pair;
  }));
}

// ---- Polling

async function ask(path) {
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
  if (response.status === 404) return null;
  if (!response.ok) throw new Error(`${path} answers ${response.status}`);
  return response.json();
}

let last = null;
let answeredAt = null;

async function poll() {
  const at = Date.now() / 1000;
  try {
    const [status, clients] = await Promise.all([ask("/status.json"), ask("/clients.json")]);
    // A server that was started again counts from 0.
    const before = last && status.uptime_seconds >= last.uptime ? last : null;
    last = { at, uptime: status.uptime_seconds, counters: counters(status) };
    const found = rates(before, last);
    const { state, why } = status.health;
    showHealth(why ? `${state}: ${why}` : state, state === "ready");
    showFacts(status);
    showLatency(status, found);
    showClients(clients);
    showVolume(status.volume);
    charts.forEach((chart) => chart.add(at, found));
    answeredAt = new Date();
  } catch (error) {
    last = null;
    const since = answeredAt ? ` since ${answeredAt.toLocaleTimeString()}` : "";
    showHealth(`no answer${since}: ${error.message}`, false);
    charts.forEach((chart) => chart.add(at, {}));
  }
  setTimeout(poll, POLL_MS);
}

const resized = new ResizeObserver(() => charts.forEach((chart) => chart.resize()));
charts.forEach((chart) => resized.observe(element(chart.id)));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.plot?.redraw()));
poll();
