// Totals of a stretch of time: in all, and per user, project and GPU; what was allocated and idle, and whose fault it was.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Usage, Use } from "../../api/contract";
import { colourOfName } from "../../logic/colours";
import { number, percent, plural, usd, wattHours, withUnit } from "../../logic/format";
import { JobLink, Swatch } from "../../parts/job";

interface Props {
  usage: Usage;
  children: ComponentChildren;
  onUser(name: string): void;
  onProject(name: string): void;
}

type Kind = "user" | "project" | "GPU";

interface Row extends Use {
  key: string;
  label: string;
  choose: (() => void) | null;
}

const wasted = (use: Use) =>
  use.idle_gpu_hours === null || use.gpu_hours === 0 ? null : Math.min(1, use.idle_gpu_hours / use.gpu_hours);

const energyOf = (use: Use) => wattHours(use.energy_kwh === null ? null : use.energy_kwh * 1000);

function Tile(props: { name: string; value: string; under?: string }) {
  return (
    <div class="tile">
      <dt>{props.name}</dt>
      <dd>
        <strong>{props.value}</strong>
        {props.under && <span class="quiet-text">{props.under}</span>}
      </dd>
    </div>
  );
}

function rowsOf(kind: Kind, props: Props): Row[] {
  const { usage } = props;
  if (kind === "user") {
    return usage.users.map(({ name, ...use }) => ({
      ...use,
      key: name ?? "",
      label: name ?? "unknown",
      choose: name ? () => props.onUser(name) : null,
    }));
  }
  if (kind === "project") {
    return usage.projects.map(({ name, ...use }) => ({
      ...use,
      key: name ?? "",
      label: name || "no project",
      choose: name ? () => props.onProject(name) : null,
    }));
  }
  return usage.gpus.map((use) => ({ ...use, key: use.uuid, label: `GPU ${use.index} · ${use.type}`, choose: null }));
}

function UseTable(props: { rows: Row[]; kind: Kind }) {
  const most = Math.max(...props.rows.map((row) => row.gpu_hours), 1e-9);
  if (props.rows.length === 0) return <p class="notice">Nothing was used in this time.</p>;
  return (
    <table class="uses">
      <thead>
        <tr>
          <th>{props.kind}</th>
          <th class="number">jobs</th>
          <th class="number">GPU-hours</th>
          <th class="share">
            <span class="unseen">share, and what of it was idle</span>
          </th>
          <th class="number">idle</th>
          <th class="number">energy</th>
          <th class="number">cloud cost</th>
        </tr>
      </thead>
      <tbody>
        {props.rows.map((row) => (
          <tr key={row.key}>
            <th scope="row">
              {props.kind !== "GPU" && <Swatch colour={colourOfName(row.label)} />}
              {row.choose ? (
                <button type="button" class="bare" title="show these jobs" onClick={row.choose}>
                  <bdi>{row.label}</bdi>
                </button>
              ) : (
                <bdi>{row.label}</bdi>
              )}
            </th>
            <td class="number">{number(row.jobs)}</td>
            <td class="number">{number(row.gpu_hours)}</td>
            <td class="share">
              <span class="meter">
                <i style={{ width: `${(row.gpu_hours / most) * 100}%` }}>
                  <i class="idle" style={{ width: `${(wasted(row) ?? 0) * 100}%` }} />
                </i>
              </span>
            </td>
            <td class="number">{percent(wasted(row))}</td>
            <td class="number">{energyOf(row)}</td>
            <td class="number">{usd(row.cost_usd)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Waste(props: { usage: Usage }) {
  const { waste } = props.usage;
  if (waste.length === 0) return <p class="notice">No job left a GPU idle.</p>;
  const most = waste[0]?.idle_gpu_hours ?? 1;
  return (
    <ol class="waste">
      {waste.slice(0, 10).map((one) => (
        <li key={one.job}>
          <JobLink id={one.job} name={one.name} />
          <span class="quiet-text">
            <bdi>{one.user}</bdi>
          </span>
          <span class="meter">
            <i class="idle" style={{ width: `${(one.idle_gpu_hours / most) * 100}%` }} />
          </span>
          <span class="number">{number(one.idle_gpu_hours)} h</span>
        </li>
      ))}
    </ol>
  );
}

const KINDS: Kind[] = ["user", "project", "GPU"];

export function Totals(props: Props) {
  const { total } = props.usage;
  const [kind, setKind] = useState<Kind>("user");
  return (
    <>
      <dl class="tiles">
        <Tile name="jobs" value={number(total.jobs)} />
        <Tile name="GPU-hours" value={number(total.gpu_hours)} />
        <Tile name="allocated but idle" value={percent(wasted(total))} under={withUnit(total.idle_gpu_hours, "GPU-hours")} />
        <Tile name="energy" value={energyOf(total)} />
        <Tile name="same in a cloud" value={usd(total.cost_usd)} under="list prices" />
      </dl>
      {props.children}
      <div class="totals">
        <section class="panel" aria-label="totals">
          <div class="section-head">
            <h2>Used by</h2>
            <span class="switch" role="group" aria-label="totals by">
              {KINDS.map((one) => (
                <button key={one} type="button" aria-pressed={kind === one} onClick={() => setKind(one)}>
                  {one}
                </button>
              ))}
            </span>
          </div>
          <UseTable rows={rowsOf(kind, props)} kind={kind} />
        </section>
        <section class="panel" aria-label="waste">
          <div class="section-head">
            <h2>Idle most</h2>
            <p class="quiet-text">{plural(props.usage.waste.length, "job")} held GPUs below 5 % use</p>
          </div>
          <Waste usage={props.usage} />
        </section>
      </div>
    </>
  );
}
