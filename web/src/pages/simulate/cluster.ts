// GPUs as the simulator is told of them.

import type { Gpu } from "../../api/contract";

/** `a100:4,t4:2`, in the order in which types appear. */
export function clusterOf(gpus: readonly Pick<Gpu, "type">[]): string {
  const counts = new Map<string, number>();
  for (const gpu of gpus) counts.set(gpu.type, (counts.get(gpu.type) ?? 0) + 1);
  return [...counts].map(([type, count]) => `${type}:${count}`).join(",");
}
