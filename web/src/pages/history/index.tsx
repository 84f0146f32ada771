// History: any stretch of the past: who used what, what of it for nothing, and every job.

import { useState } from "preact/hooks";
import { call } from "../../api/client";
import type { Heatmap, Usage } from "../../api/contract";
import { changes } from "../../live/store";
import { useAnswer, useSettled } from "../../parts/answer";
import { Loading, Trouble } from "../../parts/notice";
import { MachineBadge } from "../../parts/virtual";
import { rememberInAddress, route } from "../../route";
import { Filters, type JobFilter } from "./filters";
import { HeatmapView } from "./heatmap";
import { JobList } from "./job-list";
import { Range, rangeFromAddress, type TimeRange } from "./range";
import { Totals } from "./totals";

function filterFromAddress(): JobFilter {
  const query = route.peek().query;
  return {
    q: query.get("q") ?? "",
    state: query.get("state") ?? "",
    user: query.get("user") ?? "",
    project: query.get("project") ?? "",
  };
}

/** Bounds that move with the present are rounded, so that a new second is not a new question. */
const ROUND_MS = 10_000;

export function History() {
  const [range, setRange] = useState<TimeRange>(rangeFromAddress);
  const [filter, setFilter] = useState<JobFilter>(filterFromAddress);
  const settled = useSettled(filter, 200);
  // What ended meanwhile is shown, too, but not with every event.
  const tick = useSettled(changes.value, 3_000);
  const to = range.to ?? Math.ceil(Date.now() / ROUND_MS) * ROUND_MS;
  const from = range.from ?? to - range.span;
  const query = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
  const key = range.to === null ? `span ${range.span}` : `${query.from} ${query.to}`;
  const usage = useAnswer<Usage>(key, (stop) => call("usage", { query, signal: stop }), tick);
  const heat = useAnswer<Heatmap>(key, (stop) => call("heatmap", { query: { ...query, buckets: 96 }, signal: stop }), tick);

  const choose = (next: TimeRange) => {
    setRange(next);
    rememberInAddress({
      span: next.to === null ? String(next.span) : null,
      from: next.to === null ? null : new Date(next.from ?? 0).toISOString(),
      to: next.to === null ? null : new Date(next.to).toISOString(),
    });
  };
  const narrow = (next: JobFilter) => {
    setFilter(next);
    rememberInAddress({ ...next });
  };
  return (
    <>
      <div class="section-head">
        <h1>
          History <MachineBadge />
        </h1>
        <Range range={range} onChange={choose} />
      </div>
      {usage.problem && <Trouble what="totals" problem={usage.problem} again={usage.again} />}
      {usage.value ? (
        <Totals
          usage={usage.value}
          onUser={(user) => narrow({ ...filter, user })}
          onProject={(project) => narrow({ ...filter, project })}
        >
          {heat.problem && <Trouble what="heat map" problem={heat.problem} again={heat.again} />}
          {heat.value ? <HeatmapView heatmap={heat.value} /> : !heat.problem && <Loading what="the heat map" />}
        </Totals>
      ) : (
        !usage.problem && <Loading what="totals" />
      )}
      <section aria-label="jobs of the past">
        <div class="section-head">
          <h2>Jobs that ended</h2>
          <Filters filter={filter} onChange={narrow} usage={usage.value} />
        </div>
        <JobList
          key={`${key} ${JSON.stringify(settled)}`}
          from={query.from}
          to={query.to}
          isOpenEnded={range.to === null}
          filter={settled}
          tick={tick}
        />
      </section>
    </>
  );
}
