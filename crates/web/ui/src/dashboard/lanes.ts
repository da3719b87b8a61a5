// The lanes of `up` and `serve --internet`: what carries UDP and all else that is no TCP.

import { html, type TemplateResult } from "lit-html";

import { bytes, type Cell, number, percent, rate } from "./format.js";
import { scrolled } from "./scrolled.js";

/** A lane, as the control socket has it; what is not used here is left out. */
export interface StatusLane {
  name: string;
  role: string;
  state: string;
  srtt_ms: number | null;
  loss: number;
  mtu: number;
  sent_bytes: number;
  urgent_bytes: number;
  received_bytes: number;
  copied_packets: number;
  resent_packets: number;
  lost_packets: number;
}

export interface StatusBond {
  client: string | null;
  lanes: StatusLane[];
}

/** What a status has of them; an earlier daemon has none. */
export interface WithBonds {
  uptime_s: number;
  bonds?: StatusBond[];
}

/** Rates between two statuses, by client and lane, Mb/s. */
export type LaneRates = Map<string, { urgent: number; rest: number; receive: number }>;

const nameOf = (bond: StatusBond, lane: StatusLane): string => `${bond.client ?? ""}\n${lane.name}`;

const all = (status: WithBonds): [name: string, lane: StatusLane, client: string | null][] =>
  (status.bonds ?? []).flatMap((bond) =>
    bond.lanes.map((lane): [string, StatusLane, string | null] => [nameOf(bond, lane), lane, bond.client]),
  );

export function laneRates(before: WithBonds, now: WithBonds): LaneRates {
  const seconds = now.uptime_s - before.uptime_s;
  const found: LaneRates = new Map();
  if (seconds <= 0) return found;
  const old = new Map(all(before).map(([name, lane]) => [name, lane]));
  for (const [name, lane] of all(now)) {
    const then = old.get(name);
    // One that is new, or of a session that has begun anew, counts from zero.
    if (!then || then.sent_bytes > lane.sent_bytes) continue;
    const mbps = (after: number, earlier: number): number =>
      (Math.max(0, after - earlier) * 8) / seconds / 1e6;
    const urgent = mbps(lane.urgent_bytes, then.urgent_bytes);
    found.set(name, {
      urgent,
      rest: Math.max(0, mbps(lane.sent_bytes, then.sent_bytes) - urgent),
      receive: mbps(lane.received_bytes, then.received_bytes),
    });
  }
  return found;
}

/** What a lane's state means. */
const STATES: Record<string, [shown: string, kind: string]> = {
  up: ["up", "up"],
  new: ["not heard yet", "standby"],
  silent: ["silent", "silent"],
};

/** Whether a status has any. */
export function hasLanes(status: WithBonds | undefined): boolean {
  return status !== undefined && all(status).length > 0;
}

export function lanes(status: WithBonds, now: LaneRates): TemplateResult {
  const clients = all(status).some(([, , client]) => client !== null);
  const rows = all(status).map(([name, lane, client]) => {
    const [shown, kind] = STATES[lane.state] ?? [lane.state, "unused"];
    const rates = now.get(name);
    const cell = (value: Cell): TemplateResult => html`<td>${rate(value)}</td>`;
    return html`<tr>
      <th scope="row">${lane.name}</th>
      ${clients ? html`<td class="word">${client ?? ""}</td>` : ""}
      <td class="word"><span class="state ${kind}">${shown}</span></td>
      ${cell(rates?.urgent)} ${cell(rates?.rest)} ${cell(rates?.receive)}
      <td>${number(lane.srtt_ms)}</td>
      <td>${percent(lane.loss)}</td>
      <td>${lane.mtu}</td>
      <td>${bytes(lane.sent_bytes)}</td>
      <td>${bytes(lane.received_bytes)}</td>
      <td>${lane.copied_packets}</td>
      <td>${lane.resent_packets}</td>
      <td>${lane.lost_packets}</td>
    </tr>`;
  });
  return scrolled(
    "Table of lanes",
    html`<table>
      <caption>Lanes: UDP, ICMP and all that is no TCP</caption>
      <thead>
        <tr>
          <th scope="col">link</th>
          ${clients ? html`<th scope="col" class="word">client</th>` : ""}
          <th scope="col" class="word">state</th>
          <th scope="col">urgent <span class="unit">Mb/s</span></th>
          <th scope="col">all else <span class="unit">Mb/s</span></th>
          <th scope="col">receiving <span class="unit">Mb/s</span></th>
          <th scope="col">round trip <span class="unit">ms</span></th>
          <th scope="col">loss <span class="unit">%</span></th>
          <th scope="col">longest packet</th>
          <th scope="col">sent</th>
          <th scope="col">received</th>
          <th scope="col">copies</th>
          <th scope="col">sent again</th>
          <th scope="col">lost</th>
        </tr>
      </thead>
      <tbody>${rows}</tbody>
    </table>`,
  );
}
