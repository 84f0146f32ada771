import { describe, expect, test } from "vitest";
import { nextCursor } from "../src/api/client";
import { EventCutter } from "../src/api/stream";
import { colourOfJob, colourOfName, inkOn } from "../src/logic/colours";
import { brief, duration, inLocalTime, mib, moment, number, plain, shell, UNKNOWN, usd, wattHours } from "../src/logic/format";
import { Ring } from "../src/logic/ring";
import { parseRoute } from "../src/route";

describe("words and numbers", () => {
  test("durations", () => {
    expect([0, 0.04, 1.24, 9, 59.6, 192, 7_500, 273_600].map((s) => duration(s))).toEqual([
      "0 s",
      "0 s",
      "1.2 s",
      "9 s",
      "1 min 00 s",
      "3 min 12 s",
      "2 h 05 min",
      "3 d 4 h",
    ]);
    expect([59, 61, 7_300, 200_000].map((s) => brief(s))).toEqual(["59 s", "1 min", "2 h", "2 d"]);
  });

  test("unknown is a dash, never 0", () => {
    for (const shown of [duration(null), mib(null), number(undefined), usd(null), wattHours(null), moment(null)])
      expect(shown).toBe(UNKNOWN);
  });

  test("amounts", () => {
    expect([mib(512), mib(12_288), mib(4_915), mib(196_608)]).toEqual(["512 MiB", "12 GiB", "4.8 GiB", "192 GiB"]);
    expect([number(0), number(1_234.5), number(12.34), number(0.1234), number(7)]).toEqual(["0", "1,235", "12.3", "0.12", "7"]);
    expect([wattHours(17.42), wattHours(1_234)]).toEqual(["17.4 Wh", "1.23 kWh"]);
  });

  test("times inside sentences become the reader's own", () => {
    const now = Date.parse("2026-11-16T09:00:00Z");
    const said = inLocalTime("GPU 0 runs job 1 until about 2026-11-16T09:54:32.242Z, then it is free", now);
    expect(said).toBe(`GPU 0 runs job 1 until about ${moment("2026-11-16T09:54:32.242Z", now)}, then it is free`);
    expect(said).not.toContain("T09");
  });

  test("commands as a shell would take them", () => {
    expect(shell(["python3", "a b.py", "it's", "--lr=3e-4"])).toBe(`python3 'a b.py' 'it'\\''s' --lr=3e-4`);
    expect(plain({ base64: "/2E=" })).toBe("\ufffda");
  });

  test("neighbours have different colours, names always the same, and text can be read on all", () => {
    for (let id = 0; id < 40; id += 1) expect(colourOfJob(id)).not.toBe(colourOfJob(id + 1));
    expect(colourOfName("ada")).toBe(colourOfName("ada"));
    expect(inkOn("#ffffff")).not.toBe(inkOn("#000000"));
  });
});

describe("what comes in", () => {
  test("events are cut wherever the network cut them", () => {
    const text = 'id: 7\nevent: started\ndata: {"a":1}\n\n: still here\n\nid: 8\ndata: x\ndata: y\n\n';
    for (let at = 0; at <= text.length; at += 1) {
      const cutter = new EventCutter();
      const events = [...cutter.push(text.slice(0, at)), ...cutter.push(text.slice(at))];
      expect(events).toEqual([
        { id: "7", data: '{"a":1}' },
        { id: "8", data: "x\ny" },
      ]);
    }
  });

  test("the next page is in the link header", () => {
    expect(nextCursor('</api/v1/jobs?limit=2&cursor=41>; rel="next"')).toBe("41");
    expect(nextCursor('<http://a/x?cursor=1>; rel="prev", <http://a/x?cursor=9&q=a%2Cb>; rel="next"')).toBe("9");
    expect(nextCursor(null)).toBeNull();
  });

  test("a ring keeps the newest, gaps included", () => {
    const ring = new Ring(3);
    for (const value of [1, 2, null, 4]) ring.push(value);
    expect([0, 1, 2].map((at) => ring.at(at))).toEqual([2, Number.NaN, 4]);
    expect(ring.size).toBe(3);
  });

  test("addresses, broken ones included", () => {
    expect(parseRoute("#/job/17")).toMatchObject({ page: "job", item: "17" });
    expect(parseRoute("#/history?q=a%20b").query.get("q")).toBe("a b");
    expect(parseRoute("#/job/%E0%A4%A")).toMatchObject({ page: "job", item: "%E0%A4%A" });
    expect(parseRoute("#/nowhere")).toMatchObject({ page: "now", item: null });
  });
});
