// Virtual GPUs are named as such wherever they are shown: their use and power are modelled, not measured.

import { status } from "../live/store";

export const isVirtual = (gpu: { name: string }) => gpu.name.startsWith("Virtual ");

export const VirtualBadge = () => (
  <span class="virtual" title="This GPU is virtual: it computes nothing, and its use, memory and power are modelled.">
    virtual
  </span>
);

/** The badge of a GPU that is known by its UUID only. */
export function BadgeOf(props: { uuid: string }) {
  const gpu = status.value?.gpus.find((candidate) => candidate.uuid === props.uuid);
  return gpu && isVirtual(gpu) ? <VirtualBadge /> : null;
}

/** The badge where any GPU of the machine is virtual. */
export function MachineBadge() {
  return status.value?.gpus.some(isVirtual) ? <VirtualBadge /> : null;
}
