// The last so many values of something, in memory that does not grow.

export class Ring {
  private readonly values: Float32Array;
  private next = 0;
  size = 0;

  constructor(readonly capacity: number) {
    this.values = new Float32Array(capacity);
  }

  /** Unknown values leave a gap. */
  push(value: number | null | undefined): void {
    this.values[this.next] = value ?? Number.NaN;
    this.next = (this.next + 1) % this.capacity;
    this.size = Math.min(this.size + 1, this.capacity);
  }

  /** From the oldest, 0, to the newest. */
  at(index: number): number {
    const place = (this.next - this.size + index + this.capacity) % this.capacity;
    return this.values[place] ?? Number.NaN;
  }
}
